// NVML's memory limits per cgroup: driver R615, CUDA 13.4. Names, values and layouts are NVML's, as in nvml.h.
#pragma once

#include "provisioners/nvidia/nvml.h"

namespace egpu::nvidia {

/// nvmlSetMemoryLimits_v1_t, bytes. soft ≤ hard ≤ memory of the card.
struct SetMemoryLimits {
  const char* cgroup;  ///< folder of the cgroup, such as "/sys/fs/cgroup/kubepods.slice/…"
  unsigned long long soft, hard;
};

/// nvmlGetMemoryLimits_v1_t, bytes. The caller sets the cgroup.
struct MemoryLimits {
  const char* cgroup;
  unsigned long long soft, hard, used;
};
inline constexpr unsigned long long kNoMemoryLimit = ~0ULL;  ///< NVML_DEVICE_MEMORY_LIMIT_MAX

}  // namespace egpu::nvidia

/// The functions. Drivers before R615 lack them.
#define EGPU_NVML_MEMORY_LIMIT_FUNCTIONS(F)                                       \
  F(nvmlDeviceSetMemoryLimits_v1, (Device device, const SetMemoryLimits* limits)) \
  F(nvmlDeviceGetMemoryLimits_v1, (Device device, MemoryLimits * limits))
