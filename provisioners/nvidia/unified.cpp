#include "provisioners/nvidia/unified.h"

#include <algorithm>
#include <array>

namespace egpu::nvidia {

bool hasUnifiedMemory(std::string_view model) {
  // Names in NVML: "NVIDIA GB10", "NVIDIA GH200 480GB", "NVIDIA Thor", "Orin (nvgpu)".
  constexpr std::array<std::string_view, 5> kModels{"GB10", "GH200", "Thor", "Jetson", "Orin"};
  return std::any_of(kModels.begin(), kModels.end(), [&](std::string_view each) {
    return model.substr(0, each.size()) == each && (model.size() == each.size() || model[each.size()] == '-');
  });
}

}  // namespace egpu::nvidia
