// What NVML says of one card, each answer checked: it is another party's code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "provisioners/nvidia/library.h"
#include "provisioners/nvidia/node.h"

namespace egpu::nvidia {

/// Reads a card but for its links. Empty, or why there is none: it is lost, or has no uuid to be named by. What else is
/// missing stays unknown; what can't be is left unknown with a remark.
std::string readCard(const Library& nvml, Device device, Card& out, std::vector<std::string>& remarks);

/// Fills in the links of all. devices[i] is cards[i]. Ends early when `cancelled`.
void readLinks(const Library& nvml, const std::vector<Device>& devices, std::vector<Card>& cards,
               const std::function<bool()>& cancelled);

/// NVML's name less its maker's, which came and went with drivers, and with '-' for blanks: "A100-SXM4-80GB".
std::string modelOf(std::string name);

/// As the kernel writes it: "0000:3b:00.0".
std::string addressOf(const PciInfo& pci);

}  // namespace egpu::nvidia
