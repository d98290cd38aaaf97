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
/// Program that the runtime executes on the host, as root, with the container's state on standard input.
struct Hook {
  std::string name;               ///< createRuntime or poststop, as the OCI runtime specification defines them
  std::string path;               ///< on the host
  std::vector<std::string> args;  ///< args[0] is the program's name
  std::vector<std::string> env;   ///< the whole environment, "NAME=value"
  int timeoutSeconds = 0;         ///< 0 = none
  bool operator==(const Hook&) const = default;
};
struct ContainerEdits {
  std::vector<std::pair<std::string, std::string>> env;
  std::vector<DeviceNode> deviceNodes;
  std::vector<Mount> mounts;
  std::vector<std::string> cdiDevices;  ///< foreign CDI devices, "nvidia.com/gpu=GPU-…"
  std::vector<Hook> hooks{};            ///< hooks of the agent; plugins can't request any
  bool operator==(const ContainerEdits&) const = default;
};

}  // namespace egpu::core
