// The fake driver as a client of MPS: the limits of its environment, and those of its daemon.
#pragma once

#include <cstdint>
#include <map>

namespace egpu::gpu::testing {

struct MpsLimits {
  std::map<int, uint64_t> memory;  ///< bytes that a process may use, by ordinal of the card
  uint64_t memoryOfAll = UINT64_MAX;
  int percentage = 100;  ///< of the SMs

  uint64_t memoryOf(int device) const;
};

/// Returns the limits of this process. Without a daemon at $CUDA_MPS_PIPE_DIRECTORY, it is no client of MPS, and has
/// none.
MpsLimits mpsLimits();

}  // namespace egpu::gpu::testing
