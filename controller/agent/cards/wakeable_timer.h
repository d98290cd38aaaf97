// Sleep that other threads can interrupt.
#pragma once

#include <optional>
#include <stop_token>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"

namespace egpu::agent::cards {

/// One thread may sleep; any thread may ring.
class WakeableTimer {
 public:
  /// Ends the current sleep; without one, the next sleep ends immediately.
  void ring();
  /// Sleeps until `until`, a ring or a stop; returns false if stopped.
  bool sleepUntil(base::Clock& clock, base::Clock::Steady until, std::stop_token stop);

 private:
  base::Mutex mutex_;
  bool rung_ EGPU_GUARDED_BY(mutex_) = false;
  std::optional<std::stop_source> asleep_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::agent::cards
