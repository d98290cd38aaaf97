// What a pod asks of the node that it runs on, counted as kube-scheduler counts it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "api/core/objects.h"

namespace egpu::cache {

/// CPU in milli-cores, the rest in bytes; fractions are rounded up.
struct PodRequests {
  int64_t cpuMilli = 0;
  int64_t memoryBytes = 0;
  int64_t ephemeralBytes = 0;
  bool operator==(const PodRequests&) const = default;
  PodRequests& operator+=(const PodRequests& other) {
    cpuMilli += other.cpuMilli;
    memoryBytes += other.memoryBytes;
    ephemeralBytes += other.ephemeralBytes;
    return *this;
  }
  PodRequests& operator-=(const PodRequests& other) {
    cpuMilli -= other.cpuMilli;
    memoryBytes -= other.memoryBytes;
    ephemeralBytes -= other.ephemeralBytes;
    return *this;
  }
};

/// Per resource the larger of two: all containers and sidecars together, or the init container that needs most beside
/// the sidecars started before it. CPU and memory asked for by the pod as a whole take the place of that. The overhead
/// of its runtime class comes on top. A quantity that can't be read counts nothing: the API server lets none in. Pure.
PodRequests requestsOf(const core::Pod& pod);

using ResourceAmounts = std::map<std::string, int64_t, std::less<>>;

/// True for resources that a device plugin or an operator names ("nvidia.com/gpu"), and for huge pages.
bool isExtended(std::string_view resource);

/// Extended resources of which the pod asks for more than 0, counted as kube-scheduler counts them. Pure.
ResourceAmounts extendedRequestsOf(const core::Pod& pod);

}  // namespace egpu::cache
