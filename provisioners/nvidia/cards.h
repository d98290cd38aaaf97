// Reads cards through NVML. Every answer is checked, because NVML is foreign code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "provisioners/nvidia/library.h"
#include "provisioners/nvidia/node.h"

namespace egpu::nvidia {

/// Reads a card except its links. Returns an empty string, or why the card can't be used: it is lost, or has no usable
/// uuid. Other missing values stay unknown; invalid values stay unknown and add a remark.
std::string readCard(const Library& nvml, Device device, NvmlCard& out, std::vector<std::string>& remarks);

/// Reads the processes that compute on the card of this index, with their share of its SMs in the last second. Returns
/// false if the card has no usable uuid, or its processes are unknown.
bool readProcesses(const Library& nvml, unsigned index, std::string& uuid, std::vector<Process>& out);

/// Sets the links of all cards. devices[i] belongs to cards[i]. Stops early if `cancelled` returns true.
void readLinks(const Library& nvml, const std::vector<Device>& devices, std::vector<NvmlCard>& cards,
               const std::function<bool()>& cancelled);

/// Returns NVML's name with '-' for blanks and without the maker, which only some drivers include: "A100-SXM4-80GB".
std::string modelOf(std::string name);

/// Returns the address as the kernel writes it: "0000:3b:00.0".
std::string addressOf(const PciInfo& pci);

}  // namespace egpu::nvidia
