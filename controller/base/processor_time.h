// Processor time of a thread, for shares of it: a busy machine makes the wall clock run on while a thread waits for its
// turn.
#pragma once

#include "controller/base/clock.h"

namespace egpu::base {

/// Processor time that the calling thread has used, if that is the machine's clock; of a clock that is turned by hand,
/// the time that it shows. Only differences mean anything.
Clock::Steady::duration processorTime(const Clock& clock);

}  // namespace egpu::base
