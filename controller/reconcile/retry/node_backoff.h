// Backoff of nodes for a claim: nodes that a scheduler or plugin refused, nodes on which the API server refused its
// device, and the time between choices.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "controller/base/backoff.h"
#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/reconcile/timeouts.h"

namespace egpu::reconcile {

/// Reason for people why a node is rejected for a claim; NodeBackoff::text() has the details.
inline constexpr std::string_view kNodeRejected = "not tried for a while after a refusal";

/// Thread-safe.
class NodeBackoff {
 public:
  NodeBackoff(base::Clock& clock, const Timeouts& timeouts)
      : clock_(clock),
        timeouts_(timeouts),
        choices_(clock, timeouts.firstChoiceBackoff, timeouts.maxChoiceBackoff, kChoicesAtOnce) {}

  /// Rejects a node for a claim for a while. The time doubles each time the same node is rejected again, up to an hour.
  /// Of more than kMaxNodes nodes, drops those whose time ends first.
  void reject(const std::string& claimUid, const std::string& node, const std::string& why,
              std::chrono::milliseconds howLong);
  /// Ends the node's rejections for all claims, after its labels, taints or readiness changed.
  void nodeChanged(std::string_view node);
  bool rejected(const std::string& claimUid, std::string_view node) const;
  bool anyRejected(const std::string& claimUid) const;
  /// Message: "node n1 is not tried for a while: …"; empty if no node is rejected.
  std::string text(const std::string& claimUid) const;
  /// Time until the first of its rejected nodes may be tried again; zero if none is rejected. No event reports that
  /// time.
  std::chrono::milliseconds untilNextNode(const std::string& claimUid) const;

  /// Records that the API server refused the device on that node (W1). Another node may be accepted, so it is tried
  /// first.
  void refusedOn(const std::string& claimUid, const std::string& node);
  bool wasRefusedOn(const std::string& claimUid, std::string_view node) const;
  bool anyRefused(const std::string& claimUid) const;
  /// Forgets these nodes after all others were tried, so that they are tried again.
  void forgetRefused(const std::string& claimUid);

  /// Records a failed choice for the claim. The first few are followed by the next choice at once, later ones after an
  /// exponential backoff.
  void choiceFailed(const std::string& claimUid) { choices_.next(claimUid); }
  /// Time until the next choice; zero if it may be made now.
  std::chrono::milliseconds untilNextChoice(const std::string& claimUid) const { return choices_.remaining(claimUid); }
  /// Time since the first call of either function for this device: its claim waits for the scheduler. It is taken from
  /// the controller's own clock, so that a difference from the API server's clock is without effect.
  std::chrono::milliseconds waitedFor(const std::string& claimUid, const std::string& device);
  /// Time since the first call for this device: the scheduler knows the claim's pod, and has not placed it.
  std::chrono::milliseconds unplacedFor(const std::string& claimUid, const std::string& device);
  /// Resets that time: the scheduler need not place the pod at present.
  void notUnplaced(const std::string& claimUid);
  /// Forgets both times: the scheduler has placed the pod.
  void placed(const std::string& claimUid);

  void forgetClaim(const std::string& claimUid);
  std::size_t claims() const;

 private:
  static constexpr std::size_t kMaxNodes = 64;  ///< per claim
  static constexpr int kChoicesAtOnce = 3;      ///< failed choices without a backoff
  struct Rejection {
    base::Clock::Steady until;
    std::string why;
    int times = 0;
  };
  struct Placement {
    std::string device;
    base::Clock::Steady since;
    std::optional<base::Clock::Steady> unplacedSince;  ///< nullopt: the scheduler need not place the pod at present
  };
  /// Returns the claim's entry, a new one if its device is another.
  Placement& placementOf(const std::string& claimUid, const std::string& device) EGPU_REQUIRES(mutex_);

  base::Clock& clock_;
  const Timeouts& timeouts_;
  base::Backoff<> choices_;  ///< failed choices by claim
  mutable base::Mutex mutex_;
  std::map<std::string, std::map<std::string, Rejection, std::less<>>> rejected_ EGPU_GUARDED_BY(mutex_);
  std::map<std::string, std::set<std::string, std::less<>>> refusedOn_ EGPU_GUARDED_BY(mutex_);
  std::map<std::string, Placement> placements_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::reconcile
