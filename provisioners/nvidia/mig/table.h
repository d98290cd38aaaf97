// The part of discovery that concerns a card in MIG mode.
#pragma once

#include <string>
#include <vector>

#include "provisioners/nvidia/library.h"
#include "provisioners/nvidia/node.h"

namespace egpu::nvidia {

/// Sets the profiles of a card in MIG mode. Slots of instances that no record names are not offered, and reported as
/// the card's notice. If the profiles or the instances can't be read, the card has no profiles, and a remark says why.
void readTable(const Library& nvml, Device device, NvmlCard& card, std::vector<std::string>& remarks);

}  // namespace egpu::nvidia
