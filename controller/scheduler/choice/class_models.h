// Models of cards that a class names.
#pragma once

#include <string>
#include <vector>

#include "api/v1alpha/types.h"

namespace egpu::scheduler {

/// Models that the class's parameter `model` names; none if it is absent or invalid.
std::vector<std::string> modelsOf(const v1alpha::ElasticGPUClass& cls);

}  // namespace egpu::scheduler
