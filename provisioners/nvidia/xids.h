// Errors that NVIDIA's driver reports (XIDs), the recovery action that it requests, and their remedies.
#pragma once

#include <string>

namespace egpu::nvidia {

/// Remedies that make a card usable again, weakest first.
enum class Action { ignore, restartApp, askDriver, operatorsWord, checkHardware, resetGpu, rebootNode };

/// Returns the action in NVIDIA's catalog (xid_catalog.inc); operatorsWord for an XID that is not listed.
Action actionOf(unsigned long long xid);

/// True if no claim may get the card before the action is done. After restartApp the card works as before.
bool withdraws(unsigned long long xid);

/// Instructions for a reset of a card: the end of a sentence. The agent must be off the node, because its plugins have
/// each card open, which prevents a reset.
inline constexpr const char* kReset =
    "end what runs on the card, take the agent off the node (label elasticgpu.io/agent=false), then nvidia-smi "
    "--gpu-reset";

/// Returns a health message with the remedy: "Xid79: it has fallen off the bus; reboot …".
std::string illnessOf(unsigned long long xid);

/// Returns the health message for NVML's recovery action (NVML_GPU_RECOVERY_ACTION_…); empty for NONE.
std::string illnessOfRecovery(unsigned action);

}  // namespace egpu::nvidia
