// Kinds of resource.k8s.io: ResourceClaim, ResourceClaimTemplate, DeviceClass. Fields as in objects.h: only those that
// this project reads or writes. Standard library only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/core/meta.h"

namespace egpu::core {

/// The part of status.allocation that this project writes: one result, pinned to one node by metadata.name or, for a
/// remote device, to the nodes with an agent.
struct ResourceClaimAllocation {
  std::string request, driver, pool, device;
  std::string nodeName;             ///< from nodeSelector matchFields metadata.name; empty = not one node
  std::string allocationTimestamp;  ///< Kubernetes 1.36 rejects reservations without it
  bool operator==(const ResourceClaimAllocation&) const = default;
};
struct ResourceClaimConsumer {
  std::string resource, name, uid;
  bool operator==(const ResourceClaimConsumer&) const = default;
};
/// Configuration of devices for their driver, as written in the ResourceClaim.
struct DeviceConfig {
  std::vector<std::string> requests;  ///< names of the requests that it applies to; none = all
  std::string driver;                 ///< opaque.driver
  std::string parameters;             ///< opaque.parameters, as JSON
  bool operator==(const DeviceConfig&) const = default;
};
/// Further fields of the first request of a ResourceClaim.
struct DeviceRequest {
  StringMap capacity;          ///< capacity.requests: name → quantity text
  std::string allocationMode;  ///< ExactCount | All
  int64_t count = 0;           ///< 0 = not set, which means 1
  bool adminAccess = false;
  std::string selectors, alternatives;  ///< selectors and firstAvailable, as JSON; empty = not set
  int64_t others = 0;                   ///< number of further requests
  bool operator==(const DeviceRequest&) const = default;
};
struct ResourceClaim {
  ObjectMeta metadata;
  std::string deviceClassName;  ///< class of the first request
  std::string requestName;      ///< name of the first request
  DeviceRequest request;        ///< the first request
  std::vector<DeviceConfig> config;
  std::optional<ResourceClaimAllocation> allocation;
  std::vector<ResourceClaimConsumer> reservedFor;
  bool operator==(const ResourceClaim&) const = default;
};

/// Kubernetes creates a ResourceClaim from the template for each pod that references it.
struct ResourceClaimTemplate {
  ObjectMeta metadata;
  StringMap labels, annotations;  ///< spec.metadata of the ResourceClaims
  ResourceClaim claim;            ///< spec.spec; only the fields of a spec
  bool operator==(const ResourceClaimTemplate&) const = default;
};

struct DeviceClass {
  ObjectMeta metadata;
  std::string celSelector;  ///< first selector's expression
};

template <>
inline constexpr Kind kindOf<ResourceClaim>{"resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", true};
template <>
inline constexpr Kind kindOf<ResourceClaimTemplate>{"resource.k8s.io", "v1", "ResourceClaimTemplate",
                                                    "resourceclaimtemplates", true};
template <>
inline constexpr Kind kindOf<DeviceClass>{"resource.k8s.io", "v1", "DeviceClass", "deviceclasses", false};

}  // namespace egpu::core
