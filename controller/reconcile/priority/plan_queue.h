// Claims that wait until victims may be searched for them. Searches run one at a time, each followed by a pause, so the
// claims search in queue order: the highest priority first, then the oldest.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/reconcile/retry/unschedulable_queue.h"
#include "controller/reconcile/timeouts.h"

namespace egpu::reconcile {

/// Thread-safe. The clock must outlive it.
class PlanQueue {
 public:
  PlanQueue(base::Clock& clock, const Timeouts& timeouts) : clock_(clock), timeouts_(timeouts) {}

  /// Adds the claim to the queue. order: with the claim's uid. queueKey: key whose step searches.
  void wait(const QueueOrder& order, const std::string& queueKey);
  /// Removes the claim: it has searched, or needs no search any more. Returns true if another claim may search now.
  bool done(const std::string& claimUid);

  struct NextPlan {
    std::optional<std::string> queueKey;  ///< key whose step may search from now on
    std::optional<std::chrono::milliseconds>
        again;  ///< time until next() is to be called again; none: after wait() or done()
  };
  /// Lets the next claim search. rest: time for which no search may be made.
  NextPlan next(std::chrono::milliseconds rest);
  bool isCurrent(const std::string& queueKey) const;

 private:
  using Position = std::pair<QueueOrder, std::string>;  ///< the string is the queue key
  struct PlanSlot {
    Position at;
    base::Clock::Steady since{};
  };
  void erase(const std::string& claimUid) EGPU_REQUIRES(mutex_);

  base::Clock& clock_;
  const Timeouts& timeouts_;
  mutable base::Mutex mutex_;
  std::set<Position> inOrder_ EGPU_GUARDED_BY(mutex_);
  std::map<std::string, Position> positions_ EGPU_GUARDED_BY(mutex_);  ///< by uid of the claim
  std::optional<PlanSlot> current_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::reconcile
