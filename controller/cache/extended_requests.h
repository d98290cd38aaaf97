// A pod's requests beyond CPU, memory and storage: extended resources and huge pages.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "api/core/objects.h"

namespace egpu::cache {

using ResourceAmounts = std::map<std::string, int64_t, std::less<>>;

/// True for resources that a device plugin or an operator names ("nvidia.com/gpu"), and for huge pages.
bool isExtended(std::string_view resource);

/// Extended resources of which the pod asks for more than 0, counted as kube-scheduler counts them. Pure.
ResourceAmounts extendedRequestsOf(const core::Pod& pod);

}  // namespace egpu::cache
