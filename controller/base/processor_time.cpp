#include "controller/base/processor_time.h"

#include <ctime>

namespace egpu::base {

Clock::Steady::duration processorTime(const Clock& clock) {
  timespec used{};
  if (dynamic_cast<const SystemClock*>(&clock) == nullptr || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) != 0)
    return clock.now().time_since_epoch();
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace egpu::base
