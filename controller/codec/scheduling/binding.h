// Body of the request that binds a pod to a node.
#pragma once

#include <string>
#include <string_view>

#include "api/core/objects.h"

namespace egpu::codec::patch {

/// Returns the POST body for pods/<name>/binding. It names the pod's uid, so that a recreated pod is not bound.
std::string binding(const core::Pod& pod, std::string_view node);

}  // namespace egpu::codec::patch
