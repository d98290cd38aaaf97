// What NVIDIA's driver calls an error: its XIDs, by NVIDIA's "XID Errors" (docs.nvidia.com/deploy/xid-errors).
#pragma once

#include <string>

namespace egpu::nvidia {

/// An error of the program that ran there, not of the card.
bool isApplicationError(unsigned long long xid);

/// Whether the card may be used again without a reset, a reboot or a repair.
bool passes(unsigned long long xid);

/// How a card is reset: the end of a sentence. The agent's plugins have each card open, and it is not reset under them.
inline constexpr const char* kReset =
    "end what runs on the card, take the agent off the node (label elasticgpu.io/agent=false), then nvidia-smi "
    "--gpu-reset";

/// As a health message: "Xid79: it has fallen off the bus; reboot …". Also of those that the table lacks.
std::string illnessOf(unsigned long long xid);

}  // namespace egpu::nvidia
