// Device nodes of MIG on the host, which a confined plugin can't create.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "controller/agent/prepare/dev_links.h"

namespace egpu::agent {

/// Where the nodes and their numbers are.
struct MigNodesOptions {
  std::string hostRoot;        ///< "/", or the path of the host's root in a container
  std::string proc = "/proc";  ///< contains `devices` and `driver/nvidia-caps/mig-minors`
  gid_t group = 0;             ///< group that may create and destroy instances: that of the plugins' processes
  MakeNode make;               ///< usually mknodat
};

/// Creates /dev/nvidia-caps/nvidia-cap<n> for the right to create and destroy MIG instances, and gives `group` access
/// to it; then the nodes of all instances that the cards with these minor numbers can have, as nvidia-modprobe does.
/// Does nothing if the driver is missing or older than these files. Idempotent. Returns the nodes that can't be
/// created, such as "nvidia-cap1 (Permission denied)".
std::vector<std::string> makeMigNodes(const MigNodesOptions& options, const std::vector<int64_t>& cards);

}  // namespace egpu::agent
