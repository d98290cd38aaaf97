// What the kernel tells of NVIDIA's cards, beside NVML: sysfs and the driver's own files in /proc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace egpu::nvidia {

/// A card as /proc/driver/nvidia/gpus lists it: also one that NVML no longer reaches.
struct KernelCard {
  std::string pci;     ///< "0000:3b:00.0"
  std::string uuid;    ///< empty if the driver never got so far
  int64_t minor = -1;  ///< -1 = unknown
};

/// The path with $ELASTICGPU_SYSTEM_ROOT before it, for tests. It stands before all paths of this library's.
std::string rooted(const std::string& path);

/// Cards that the driver was told to exclude are left out.
std::vector<KernelCard> kernelCards();
/// Memory of this machine, bytes; 0 = unknown.
int64_t machineMemory();
/// -1 = unknown.
int64_t numaNodeOf(const std::string& pci);
/// The PCIe root complex, as "pci0000:3a"; empty = unknown.
std::string pcieRootOf(const std::string& pci);

/// "GPU-…" and the like: 1 to 63 letters, digits, '-' and '.', of which letters and digits are first and last.
bool isUuid(const std::string& text);

}  // namespace egpu::nvidia
