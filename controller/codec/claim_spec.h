// JSON of the spec of an ElasticGPUClaim without the object around it, as in the driver parameters of a ResourceClaim.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/base/status.h"

namespace egpu::codec {

/// Decodes a spec. Fails with Code::invalid and the name of the field if a field is unknown or has the wrong type.
base::Result<v1alpha::ElasticGPUClaimSpec> decodeClaimSpec(std::string_view json);
/// Names of the fields of a spec, and of one of its alternatives (spec.firstAvailable).
std::vector<std::string> claimSpecFields();
std::vector<std::string> alternativeFields();
std::string encodeClaimSpec(const v1alpha::ElasticGPUClaimSpec& spec);

}  // namespace egpu::codec
