#include "controller/agent/cards/wakeable_timer.h"

#include <utility>

namespace egpu::agent::cards {

void WakeableTimer::ring() {
  base::MutexLock lock(mutex_);
  rung_ = true;
  if (asleep_) asleep_->request_stop();
}

bool WakeableTimer::sleepUntil(base::Clock& clock, base::Clock::Steady until, std::stop_token stop) {
  std::stop_source awake;
  {
    base::MutexLock lock(mutex_);
    if (std::exchange(rung_, false)) return !stop.stop_requested();
    asleep_ = awake;
  }
  {
    std::stop_callback stopped(stop, [&] { awake.request_stop(); });
    clock.sleepUntil(until, awake.get_token());
  }
  base::MutexLock lock(mutex_);
  asleep_.reset();
  rung_ = false;
  return !stop.stop_requested();
}

}  // namespace egpu::agent::cards
