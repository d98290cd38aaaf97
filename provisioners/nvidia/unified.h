// Cards whose memory is the machine's own, or open to its processors: what one program takes of it no one can limit.
#pragma once

#include <string_view>

namespace egpu::nvidia {

/// Whether a model, as discovery publishes it, has such memory: GB10, Thor and Orin have none of their own, and the
/// kernel gives that of GH200 to programs on the processor, too.
bool hasUnifiedMemory(std::string_view model);

}  // namespace egpu::nvidia
