#include "provisioners/nvidia/container/mig_nodes.h"

#include <fstream>
#include <map>

#include "provisioners/nvidia/system.h"

namespace egpu::nvidia {

std::optional<std::vector<std::string>> migNodes(int64_t cardMinor, int gpuInstance, int computeInstance) {
  std::map<std::string, unsigned> minors;  // by capability: "gpu0/gi1/ci0/access"
  std::ifstream in(rooted("/proc/driver/nvidia-caps/mig-minors"));
  std::string capability;
  unsigned minor = 0;
  while (in >> capability >> minor) minors[capability] = minor;
  std::vector<std::string> out;
  const std::string instance = "gpu" + std::to_string(cardMinor) + "/gi" + std::to_string(gpuInstance);
  for (const std::string& name :
       {instance + "/access", instance + "/ci" + std::to_string(computeInstance) + "/access"}) {
    const auto found = minors.find(name);
    if (found == minors.end()) return std::nullopt;
    out.push_back("/dev/nvidia-caps/nvidia-cap" + std::to_string(found->second));
  }
  return out;
}

}  // namespace egpu::nvidia
