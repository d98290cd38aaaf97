// The write that gives a pod its node.
#pragma once

#include <string>
#include <string_view>

#include "api/core/objects.h"

namespace egpu::codec::patch {

/// POST body for pods/<name>/binding: of exactly that pod, by its uid.
std::string binding(const core::Pod& pod, std::string_view node);

}  // namespace egpu::codec::patch
