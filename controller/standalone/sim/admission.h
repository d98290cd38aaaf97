// What the admission policies do on a cluster, for the embedded API server: a pod's annotations that name claims, or
// templates of them, or amounts, become resourceClaims and a gate on create; names are DNS labels; the annotations are frozen afterwards; a container that
// asks for elasticgpu.io/… among its own resources is refused.
#pragma once

#include <string>
#include <string_view>

#include "controller/base/status.h"

namespace egpu::sim {

/// An admission hook of the embedded API server. resource is the plural, operation CREATE or UPDATE, oldJson empty on
/// CREATE. Changes objectJson in place. A name is given to the container (init containers included) that is called so,
/// else to every container. Code::invalid says which annotation or resource is wrong and what would be valid. Pure.
base::Status admitPod(std::string_view resource, std::string_view operation, std::string& objectJson,
                      std::string_view oldJson);

}  // namespace egpu::sim
