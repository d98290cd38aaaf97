// A sleep that others can end.
#pragma once

#include <mutex>
#include <optional>
#include <stop_token>

#include "controller/base/clock.h"

namespace egpu::agent::cards {

/// One thread sleeps, any may ring.
class Alarm {
 public:
  /// Ends the sleep under way or, if there is none, the next one at once.
  void ring();
  /// Until then, a ring or a stop; false if stopped.
  bool sleepUntil(base::Clock& clock, base::Clock::Steady until, std::stop_token stop);

 private:
  std::mutex mutex_;
  bool rung_ = false;                       ///< protected by mutex_
  std::optional<std::stop_source> asleep_;  ///< protected by mutex_
};

}  // namespace egpu::agent::cards
