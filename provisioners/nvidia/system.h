// Information of the kernel about NVIDIA's cards, in addition to NVML: sysfs, and the driver's files in /proc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace egpu::nvidia {

/// A card in /proc/driver/nvidia/gpus, which also lists cards that NVML no longer reaches.
struct KernelCard {
  std::string pci;     ///< "0000:3b:00.0"
  std::string uuid;    ///< empty if the driver never read it
  int64_t minor = -1;  ///< -1 = unknown
};

/// Returns the path with the prefix $ELASTICGPU_SYSTEM_ROOT, for tests. All paths in this library have this prefix.
std::string rooted(const std::string& path);

/// Returns the kernel's cards, except those that the driver is configured to exclude.
std::vector<KernelCard> kernelCards();
/// Returns the memory of this machine in bytes; 0 = unknown.
int64_t machineMemory();
/// Returns the NUMA node of a PCI device; -1 = unknown.
int64_t numaNodeOf(const std::string& pci);
/// Returns the PCIe root complex, such as "pci0000:3a"; empty = unknown.
std::string pcieRootOf(const std::string& pci);

/// Returns true for a uuid such as "GPU-…": 1 to 63 letters, digits, '-' and '.', beginning and ending with a letter or
/// digit.
bool isUuid(const std::string& text);

}  // namespace egpu::nvidia
