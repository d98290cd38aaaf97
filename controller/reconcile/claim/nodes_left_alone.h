// Nodes that are left alone for a claim: where a scheduler or a plugin would not have it, where the API server refused
// its device, and how long a choice may take.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "controller/base/clock.h"

namespace egpu::reconcile {

/// Reason of a node that is rejected for a claim, for people; NodesLeftAlone::text() has the details.
inline constexpr std::string_view kLeftAlone = "left alone after a refusal";

/// Thread-safe.
class NodesLeftAlone {
 public:
  explicit NodesLeftAlone(base::Clock& clock) : clock_(clock) {}

  /// Nodes that are not tried for a claim for a while, and why. Twice as long each time the same node is rejected
  /// again, up to an hour; of many nodes the ones that come back first are forgotten.
  void reject(const std::string& claimUid, const std::string& node, const std::string& why,
              std::chrono::milliseconds howLong);
  /// The node is another one now (labels, taints, readiness): it may be tried again for all claims.
  void nodeChanged(std::string_view node);
  bool rejected(const std::string& claimUid, std::string_view node) const;
  bool anyRejected(const std::string& claimUid) const;
  /// For people: "node n1 is not tried for a while: …"; empty if none is rejected.
  std::string text(const std::string& claimUid) const;
  /// Until the first of its rejected nodes may be tried again; zero if none is rejected. No event tells it.
  std::chrono::milliseconds untilNextNode(const std::string& claimUid) const;

  /// The API server refused the device on that node (W1). Perhaps only there: others are tried first.
  void refusedOn(const std::string& claimUid, const std::string& node);
  bool wasRefusedOn(const std::string& claimUid, std::string_view node) const;
  bool anyRefused(const std::string& claimUid) const;
  /// All were tried, so they are tried again.
  void forgetRefused(const std::string& claimUid);

  /// A choice of this claim came to nothing. The first few may be followed by another one at once, the next ones after
  /// ever longer waits.
  void choiceFailed(const std::string& claimUid);
  /// Until the next choice; zero if now.
  std::chrono::milliseconds untilNextChoice(const std::string& claimUid) const;
  /// The scheduler has the claim's pod, with this device, and has not placed it. How long since that was first said of
  /// this device.
  std::chrono::milliseconds unplacedFor(const std::string& claimUid, const std::string& device);
  /// It need not place it (yet): the time starts anew.
  void notUnplaced(const std::string& claimUid);

  void forgetClaim(const std::string& claimUid);
  std::size_t claims() const;

 private:
  static constexpr std::size_t kMostNodes = 64;  ///< per claim
  struct Rejection {
    base::Clock::Steady until;
    std::string why;
    int times = 0;
  };
  struct Choices {
    int failed = 0;
    base::Clock::Steady last;
  };
  struct Unplaced {
    std::string device;
    base::Clock::Steady since;
  };
  base::Clock& clock_;
  mutable std::mutex mutex_;  // guards all below, each by claim
  std::map<std::string, std::map<std::string, Rejection, std::less<>>> rejected_;
  std::map<std::string, std::set<std::string, std::less<>>> refusedOn_;
  std::map<std::string, Choices> choices_;
  std::map<std::string, Unplaced> unplaced_;
};

}  // namespace egpu::reconcile
