// Cards with unified memory: it is the machine's, or open to its processors, so that its use by a program can't be
// limited.
#pragma once

#include <string_view>

namespace egpu::nvidia {

/// True if the model, as published by discovery, has unified memory: GB10, Thor and Orin have no memory of their own,
/// and the kernel also gives the memory of GH200 to programs on the processor.
bool hasUnifiedMemory(std::string_view model);

}  // namespace egpu::nvidia
