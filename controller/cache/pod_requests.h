// Requests of a pod to the node that it runs on, counted as kube-scheduler counts them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "api/core/objects.h"

namespace egpu::cache {

/// CPU in milli-cores, memory and storage in bytes; fractions are rounded up.
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

/// Returns per resource the larger of two amounts: the sum of all containers and sidecars, or the init container that
/// needs most together with the sidecars started before it. CPU and memory requests of the pod as a whole replace that
/// amount. The overhead of the runtime class is added. An unreadable quantity counts as 0; the API server admits none.
/// Pure.
PodRequests requestsOf(const core::Pod& pod);

using ResourceAmounts = std::map<std::string, int64_t, std::less<>>;

/// True for resources that a device plugin or an operator names ("nvidia.com/gpu"), and for huge pages.
bool isExtended(std::string_view resource);

/// Returns the extended resources that the pod requests more than 0 of, counted as kube-scheduler counts them. Pure.
ResourceAmounts extendedRequestsOf(const core::Pod& pod);

}  // namespace egpu::cache
