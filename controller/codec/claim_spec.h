// The spec of an ElasticGPUClaim by itself, as it stands in a template and in what a ResourceClaim tells our driver.
#pragma once

#include <string>
#include <string_view>

#include "api/v1alpha/types.h"
#include "controller/base/status.h"

namespace egpu::codec {

/// Code::invalid if it has a field that such a spec has not, or one of a wrong type; which one is said.
base::Result<v1alpha::ElasticGPUClaimSpec> decodeClaimSpec(std::string_view json);
std::string encodeClaimSpec(const v1alpha::ElasticGPUClaimSpec& spec);

}  // namespace egpu::codec
