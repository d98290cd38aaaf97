// The errors that NVIDIA's driver reports (XIDs), the recovery action that it asks for, and the remedy of each.
#pragma once

#include <string>

namespace egpu::nvidia {

/// Remedies that make a card usable again, the least first.
enum class Action { ignore, restartApp, askDriver, operatorsWord, checkHardware, resetGpu, rebootNode };

/// By NVIDIA's catalog (xid_catalog.inc). An XID that it does not list: operatorsWord.
Action actionOf(unsigned long long xid);

/// Whether no claim may get the card before the action is done. After restartApp the card works as before.
bool withdraws(unsigned long long xid);

/// How a card is reset: the end of a sentence. The agent's plugins have each card open, and it is not reset under them.
inline constexpr const char* kReset =
    "end what runs on the card, take the agent off the node (label elasticgpu.io/agent=false), then nvidia-smi "
    "--gpu-reset";

/// As a health message that names the action: "Xid79: it has fallen off the bus; reboot …".
std::string illnessOf(unsigned long long xid);

/// Health message of NVML's recovery action (NVML_GPU_RECOVERY_ACTION_…); empty for NONE.
std::string illnessOfRecovery(unsigned action);

}  // namespace egpu::nvidia
