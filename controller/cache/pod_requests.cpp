#include "controller/cache/pod_requests.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "api/v1alpha/quantity.h"

namespace egpu::cache {
namespace {

using Nano = __int128;
constexpr Nano kUnit = 1'000'000'000;

Nano amount(const core::StringMap& requests, std::string_view resource) {
  const auto it = requests.find(resource);
  if (it == requests.end()) return 0;
  const auto quantity = v1alpha::parseQuantity(it->second);
  return quantity ? static_cast<Nano>(quantity->nano) : 0;
}

int64_t total(const core::Pod& pod, std::string_view resource, bool ofThePod, Nano unit) {
  Nano running = 0;   // all that run together after the start
  Nano starting = 0;  // maximum during the start
  Nano sidecars = 0;  // sidecars started so far
  for (const auto& container : pod.containers) running += amount(container.requests, resource);
  for (const auto& container : pod.initContainers) {
    const Nano own = amount(container.requests, resource);
    if (container.sidecar) {
      running += own;
      sidecars += own;
    }
    starting = std::max(starting, container.sidecar ? sidecars : own + sidecars);
  }
  Nano sum = std::max(running, starting);
  if (ofThePod && pod.requests.find(resource) != pod.requests.end()) sum = amount(pod.requests, resource);
  sum += amount(pod.overhead, resource);
  const Nano units = (sum + unit - 1) / unit;
  return static_cast<int64_t>(std::clamp<Nano>(units, 0, std::numeric_limits<int64_t>::max() / 4));
}

}  // namespace

bool isExtended(std::string_view resource) {
  return resource.find('/') != std::string_view::npos || resource.rfind("hugepages-", 0) == 0;
}

ResourceAmounts extendedRequestsOf(const core::Pod& pod) {
  ResourceAmounts out;
  const auto count = [&](const core::StringMap& requests) {
    for (const auto& [resource, quantity] : requests)
      if (isExtended(resource) && out.find(resource) == out.end())
        if (const auto amount = total(pod, resource, true, kUnit); amount > 0) out.emplace(resource, amount);
  };
  for (const auto& container : pod.containers) count(container.requests);
  for (const auto& container : pod.initContainers) count(container.requests);
  count(pod.requests);
  count(pod.overhead);
  return out;
}

PodRequests requestsOf(const core::Pod& pod) {
  PodRequests out;
  out.cpuMilli = total(pod, "cpu", true, kUnit / 1000);
  out.memoryBytes = total(pod, "memory", true, kUnit);
  out.ephemeralBytes = total(pod, "ephemeral-storage", false, kUnit);
  return out;
}

}  // namespace egpu::cache
