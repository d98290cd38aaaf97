#include "controller/agent/cards/alarm.h"

#include <utility>

namespace egpu::agent::cards {

void Alarm::ring() {
  std::lock_guard lock(mutex_);
  rung_ = true;
  if (asleep_) asleep_->request_stop();
}

bool Alarm::sleepUntil(base::Clock& clock, base::Clock::Steady until, std::stop_token stop) {
  std::stop_source awake;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(rung_, false)) return !stop.stop_requested();
    asleep_ = awake;
  }
  {
    std::stop_callback stopped(stop, [&] { awake.request_stop(); });
    clock.sleepUntil(until, awake.get_token());
  }
  std::lock_guard lock(mutex_);
  asleep_.reset();
  rung_ = false;
  return !stop.stop_requested();
}

}  // namespace egpu::agent::cards
