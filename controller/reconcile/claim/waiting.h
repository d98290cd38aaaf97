// Who waits for room, and what a decision has learnt: claims and pods that found no fit, nodes that a scheduler refused
// for a claim, claims that a provisioner refused. Lost with the process, which only costs one more try each.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/core/meta.h"
#include "controller/base/clock.h"

namespace egpu::reconcile {

/// Whose turn it is: older objects first, those of the same second by uid.
struct Age {
  std::string created, uid;
  auto operator<=>(const Age&) const = default;
};
inline Age ageOf(const core::ObjectMeta& metadata) { return {metadata.creationTimestamp, metadata.uid}; }

/// Thread-safe.
class Waiting {
 public:
  explicit Waiting(base::Clock& clock) : clock_(clock) {}

  /// This queue key, of a claim or pod so old, found no room.
  void forRoom(const std::string& queueKey, const Age& age);
  void satisfied(const std::string& queueKey);
  /// All that wait, the oldest first, to be tried again (they stay until satisfied).
  std::vector<std::string> all() const;
  std::size_t size() const;
  /// Claims of which anything is remembered; for tests.
  std::size_t claims() const;

  /// Nodes that are not tried for a claim for a while, and why. Twice as long each time the same node is rejected
  /// again, up to an hour; of many nodes the ones that come back first are forgotten.
  void rejectNode(const std::string& claimUid, const std::string& node, const std::string& why,
                  std::chrono::milliseconds howLong);
  /// The node is another one now (labels, taints, readiness): it may be tried again for all claims.
  void nodeChanged(std::string_view node);
  bool rejected(const std::string& claimUid, std::string_view node) const;
  bool anyRejected(const std::string& claimUid) const;
  /// For people: "node n1 is not tried for a while: …"; empty if none is rejected.
  std::string rejections(const std::string& claimUid) const;
  /// Until the first of its rejected nodes may be tried again; zero if none is rejected. No event tells it.
  std::chrono::milliseconds untilNextNode(const std::string& claimUid) const;
  void forgetClaim(const std::string& claimUid);

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

  /// The explanation of a claim's NoFit may be written again only that long after the last one: true = now (and noted).
  bool mayExplain(const std::string& claimUid, std::chrono::milliseconds every);

  /// The provisioner refused what this claim asks for: not tried again until released (its plugin changed) or the time
  /// is over.
  void refused(const std::string& claimUid, const std::string& provisioner, const std::string& message,
               std::chrono::milliseconds howLong);
  /// The message, or empty if it may be tried.
  std::string refusal(const std::string& claimUid) const;
  /// Until it may be tried again without its plugin's changing; zero if now.
  std::chrono::milliseconds untilRefusalEnds(const std::string& claimUid) const;
  /// The API server refused the device on that node (W1). Perhaps only there: others are tried first.
  void refusedOn(const std::string& claimUid, const std::string& node);
  bool wasRefusedOn(const std::string& claimUid, std::string_view node) const;
  bool anyRefusedNode(const std::string& claimUid) const;
  /// All were tried, so they are tried again.
  void forgetRefusedNodes(const std::string& claimUid);
  /// The API server said 422 to what was decided: a ledger without the room, a policy. Returns how often since the
  /// claim was last forgotten.
  int serverRefused(const std::string& claimUid);
  void pluginChanged(const std::string& provisioner);

 private:
  static constexpr std::size_t kNodesRejected = 64;  ///< at most, per claim
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
  struct Refusal {
    std::string provisioner, message;
    base::Clock::Steady until;
  };
  base::Clock& clock_;
  mutable std::mutex mutex_;                           // guards all below
  std::map<std::string, Age> room_;                    ///< by queue key
  std::set<std::pair<Age, std::string>> roomInOrder_;  ///< the same
  std::map<std::string, std::map<std::string, Rejection, std::less<>>> rejected_;
  std::map<std::string, base::Clock::Steady> explained_;
  std::map<std::string, Refusal> refused_;
  std::map<std::string, int> serverRefused_;
  std::map<std::string, std::set<std::string, std::less<>>> refusedOn_;
  std::map<std::string, Choices> choices_;
  std::map<std::string, Unplaced> unplaced_;
};

}  // namespace egpu::reconcile
