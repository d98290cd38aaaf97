// The files in /dev by which a container reaches NVIDIA's cards.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/plugin/provisioner.hpp"

namespace egpu::nvidia {

/// Paths in a container for the cards with these minor numbers: those of the cards and nvidiactl, and what else of the
/// driver's is there.
std::vector<std::string> deviceNodes(const std::vector<int64_t>& minors);

/// mknod(2), or a test's.
using MakeNode = std::function<int(const char* path, mode_t mode, dev_t device)>;

/// Makes what the host lacks of them: /dev/nvidia-uvm*, and a link /dev/char/<major>:<minor> for each node. NO_CHANGE if
/// there is nothing to do; unavailable if CUDA could not start in a container. A repeat changes nothing.
sdk::Status stageNodes(const std::vector<int64_t>& minors, const MakeNode& make);

}  // namespace egpu::nvidia
