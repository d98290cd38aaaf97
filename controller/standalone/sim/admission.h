// Implements the project's admission policies for the embedded API server. On create, annotations of a pod that name
// claims, claim templates or amounts become resourceClaims and a scheduling gate. Names must be DNS labels. These
// annotations can't change afterwards. A container that requests elasticgpu.io/… as its own resource is refused.
#pragma once

#include <string>
#include <string_view>

#include "controller/base/status.h"

namespace egpu::sim {

/// Admission hook of the embedded API server. resource: the plural name. operation: CREATE or UPDATE. oldJson: empty on
/// CREATE. Changes objectJson in place. A claim goes to the container or init container with the same name, or to every
/// container if there is none. Fails with Code::invalid; the message names the wrong annotation or resource and the
/// valid values. Pure.
base::Status admitPod(std::string_view resource, std::string_view operation, std::string& objectJson,
                      std::string_view oldJson);

}  // namespace egpu::sim
