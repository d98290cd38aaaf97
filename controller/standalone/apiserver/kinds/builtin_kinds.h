// The Kubernetes kinds that this server supports (kinds/*.yaml), and those rules of these kinds and of metadata that a
// schema can't express.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/base/status.h"
#include "controller/standalone/apiserver/kinds/resource.h"
#include "controller/standalone/apiserver/schema/schema.h"

namespace egpu::apiserver {

/// Adds Namespace, Node, Pod, Event, Lease, ResourceClaim, ResourceClaimTemplate, DeviceClass, DeviceTaintRule,
/// PriorityClass and PodGroup.
base::Status addBuiltinKinds(ResourceTable& table);

/// Validates metadata: name (by the kind's rule), generateName, namespace, labels, annotations (256 KiB in total),
/// finalizers, owner references.
std::vector<FieldError> validateMeta(const Resource& resource, const nlohmann::json& object);

/// Validates rules of a built-in kind that a schema can't express: container names, unique volumes, referenced claims,
/// and on updates (`old` not null) immutable fields. Returns no errors for custom kinds.
std::vector<FieldError> validateBuiltin(const Resource& resource, const nlohmann::json& object,
                                        const nlohmann::json* old);

/// Sets the fields that a real server sets on create in addition to schema defaults, such as the phase and the label
/// kubernetes.io/metadata.name of namespaces, and the phase and QoS class of pods. Called after pruning, before
/// validation.
void fillBuiltin(const Resource& resource, nlohmann::json& object);

/// PriorityClasses that every cluster has, with their values.
inline constexpr std::array<std::pair<std::string_view, int64_t>, 2> kSystemPriorityClasses{
    {{"system-node-critical", 2'000'001'000}, {"system-cluster-critical", 2'000'000'000}}};

/// True for a DNS subdomain (≤ 253 characters) or label (≤ 63) of lower-case letters, digits, '-' and, in subdomains,
/// '.'. Such a name is valid as one path segment.
bool isDnsSubdomain(std::string_view name);
bool isDnsLabel(std::string_view name);
/// True for a label or annotation key, [prefix/]name, and for a label value, empty or ≤ 63 characters.
bool isQualifiedName(std::string_view key);
bool isLabelValue(std::string_view value);

}  // namespace egpu::apiserver
