// Processor time of a thread. Limits on a thread's share of time use it instead of the wall clock, which also advances
// while the thread waits for a processor on a busy machine.
#pragma once

#include "controller/base/clock.h"

namespace egpu::base {

/// Returns the processor time that the calling thread has used if `clock` is a SystemClock, otherwise the time of
/// `clock`. Only differences between two results are meaningful.
Clock::Steady::duration processorTime(const Clock& clock);

}  // namespace egpu::base
