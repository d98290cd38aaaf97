// Links and nodes that the host's /dev must have for containers to keep access to their devices. A confined plugin
// can't create them, because it has its own user and no CAP_MKNOD. The agent can.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "api/core/container_edits.h"

namespace egpu::agent {

/// Same contract as mknodat(2).
using MakeNode = std::function<int(int folder, const char* name, mode_t mode, dev_t number)>;

/// Creates the missing links /dev/char/<major>:<minor> for `nodes`. When systemd reloads, it looks up a container's
/// devices by these names, and revokes access to devices that it does not find. Only existing character devices below
/// /dev get links. No link out of hostRoot ("/", or the path of the host's root in a container) is followed or written.
/// Idempotent. Returns the links that can't be created, such as "195:0 (Permission denied)"; no prepare fails because
/// of them.
std::vector<std::string> linkDevices(const std::string& hostRoot, const std::vector<core::DeviceNode>& nodes);

/// Creates /dev/nvidia-uvm and /dev/nvidia-uvm-tools if they are missing, as nvidia-modprobe -c 0 -u does. `devices`:
/// the host's /proc/devices, which contains the major number of nvidia-uvm. Does nothing if the driver is missing (no
/// /dev/nvidiactl) or the module is not loaded. Idempotent. Returns the nodes that can't be created, in the form that
/// linkDevices() uses.
std::vector<std::string> makeUvmNodes(const std::string& hostRoot, const std::string& devices, const MakeNode& make);

}  // namespace egpu::agent
