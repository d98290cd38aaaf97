// Changes to a container beyond its image, with the fields of CDI's containerEdits. Standard library only.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace egpu::core {

struct DeviceNode {
  std::string path, hostPath, permissions;
  bool operator==(const DeviceNode&) const = default;
};
struct Mount {
  std::string hostPath, containerPath;
  std::vector<std::string> options;
  bool operator==(const Mount&) const = default;
};
struct ContainerEdits {
  std::vector<std::pair<std::string, std::string>> env;
  std::vector<DeviceNode> deviceNodes;
  std::vector<Mount> mounts;
  std::vector<std::string> cdiDevices;  ///< foreign CDI devices, "nvidia.com/gpu=GPU-…"
  bool operator==(const ContainerEdits&) const = default;
};

}  // namespace egpu::core
