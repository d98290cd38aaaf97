// Card models of a class.
#pragma once

#include <string>
#include <vector>

#include "api/v1alpha/types.h"

namespace egpu::scheduler {

/// Returns the models in the class's parameter `model`; empty if it is absent or invalid.
std::vector<std::string> modelsOf(const v1alpha::ElasticGPUClass& cls);

}  // namespace egpu::scheduler
