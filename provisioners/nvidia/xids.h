// What NVIDIA's driver calls an error: its XIDs, by NVIDIA's "XID Errors" (docs.nvidia.com/deploy/xid-errors).
#pragma once

#include <string>

namespace egpu::nvidia {

/// An error of the program that ran there, not of the card.
bool isApplicationError(unsigned long long xid);

/// As a health message: "Xid79: it has fallen off the bus; reboot …". Also of those that the table lacks.
std::string illnessOf(unsigned long long xid);

}  // namespace egpu::nvidia
