// Detects statuses that alternate: the same contents are written again and again, with other contents in between. Two
// steps that undo each other would otherwise write as fast as the API server answers. Such writes get an exponential
// backoff.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/core/meta.h"
#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/base/mutex.h"
#include "controller/reconcile/timeouts.h"

namespace egpu::reconcile {

/// Stores the last contents of the objects written last. Thread-safe. Clock and metrics must outlive it.
///
/// Contents are the body of the status patch without resourceVersion and times. The history of an object restarts when
/// its generation changes, because its spec is an input of its status. Contents that differ from the previous ones in
/// numbers only may return more often: numbers count other objects (members of a gang, cards in use), which come and
/// go.
class StatusAlternations {
 public:
  static constexpr int kMaxReturns = 4;         ///< writes of the same contents before the next one must wait
  static constexpr int kMaxNumberReturns = 20;  ///< such writes after contents that differed in numbers only

  StatusAlternations(base::Clock& clock, const Timeouts& timeouts, base::Metrics& metrics)
      : clock_(clock), timeouts_(timeouts), metrics_(metrics) {}

  /// Time until these contents may be written; 0 = now. Contents that do not alternate never wait.
  std::chrono::milliseconds backoff(const core::ObjectMeta& object, std::string_view body) const;
  /// Records a write. Counts it in elasticgpu_status_alternations_total if it alternates, and logs the first one of an
  /// object in ten minutes, with the difference of its contents.
  void wrote(std::string_view kind, const core::ObjectMeta& object, std::string_view body);

  /// Number of objects with a history; for tests.
  std::size_t size() const;

 private:
  struct Contents {
    std::size_t hash = 0, shape = 0;     ///< shape: hash of the contents without numbers
    std::string text;                    ///< set if the contents were written more than once
    int returns = 1, numberReturns = 1;  ///< number of writes, each soon after the previous one
    base::Clock::Steady last{};
    /// Returns above the limit; 0: the limit is reached.
    int excess() const { return std::max(returns - kMaxReturns, numberReturns - kMaxNumberReturns); }
  };
  struct History {
    std::string uid;
    int64_t generation = 0;
    std::vector<Contents> contents;  ///< ordered by their last write
    int alternations = 0;
    base::Clock::Steady until{}, logged{};
  };
  using Histories = std::list<History>;  ///< ordered by their last write, the newest first

  History& historyOf(const core::ObjectMeta& object) EGPU_REQUIRES(mutex_);
  std::chrono::milliseconds backoffAfter(int alternations) const;
  /// Logs how the two contents differ, once per object and interval.
  void report(History& history, std::string_view kind, const core::ObjectMeta& object);

  base::Clock& clock_;
  const Timeouts& timeouts_;
  base::Metrics& metrics_;
  mutable base::Mutex mutex_;
  Histories histories_ EGPU_GUARDED_BY(mutex_);
  /// Its keys are in histories_.
  std::unordered_map<std::string_view, Histories::iterator> byUid_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::reconcile
