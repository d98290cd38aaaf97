// What the host's /dev must have for a container's devices to stay its own. A confined plugin can't make it: it has a user
// of its own and no CAP_MKNOD. The agent can.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "api/core/container_edits.h"

namespace egpu::agent {

/// As mknodat(2).
using MakeNode = std::function<int(int folder, const char* name, mode_t mode, dev_t number)>;

/// Makes the links /dev/char/<major>:<minor> that are missing for these nodes. systemd looks for a container's devices by
/// these names when it reloads, and takes from it those that it doesn't find. Only for character devices that are there,
/// below /dev, and nothing that leads out of hostRoot ("/", or where a container sees its host) is followed or written.
/// Idempotent. What can't be made is returned, as "195:0 (Permission denied)"; nobody's pod fails for it.
std::vector<std::string> linkDevices(const std::string& hostRoot, const std::vector<core::DeviceNode>& nodes);

/// Makes /dev/nvidia-uvm and /dev/nvidia-uvm-tools if they are missing, by the number that `devices`, the host's
/// /proc/devices, has for nvidia-uvm: as nvidia-modprobe -c 0 -u. Nothing where the driver is not there (no /dev/nvidiactl)
/// or the module is not loaded. Idempotent; returns what could not be made, likewise.
std::vector<std::string> makeUvmNodes(const std::string& hostRoot, const std::string& devices, const MakeNode& make);

}  // namespace egpu::agent
