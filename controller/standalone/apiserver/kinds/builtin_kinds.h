// Kubernetes' own kinds as far as they are served (kinds/*.yaml), and the rules of theirs and of metadata that no
// schema can say.
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

/// Namespace, Node, Pod, Event, Lease, ResourceClaim, ResourceClaimTemplate, DeviceClass, DeviceTaintRule,
/// PriorityClass, PodGroup.
base::Status addBuiltinKinds(ResourceTable& table);

/// metadata: name (by the kind's rule), generateName, namespace, labels, annotations (256 KiB in all), finalizers,
/// owner references.
std::vector<FieldError> validateMeta(const Resource& resource, const nlohmann::json& object);

/// What a schema can't say of a built-in kind: container names, unique volumes, referenced claims; on updates (`old`
/// not null) what is immutable. Empty for custom kinds.
std::vector<FieldError> validateBuiltin(const Resource& resource, const nlohmann::json& object,
                                        const nlohmann::json* old);

/// What a real server fills in at create besides schema defaults (label kubernetes.io/metadata.name and phase of
/// namespaces, phase and QoS class of pods, …). Called after pruning, before validation.
void fillBuiltin(const Resource& resource, nlohmann::json& object);

/// The PriorityClasses that every cluster has, with their values.
inline constexpr std::array<std::pair<std::string_view, int64_t>, 2> kSystemPriorityClasses{
    {{"system-node-critical", 2'000'001'000}, {"system-cluster-critical", 2'000'000'000}}};

/// Whether `name` may be one path segment and a DNS subdomain (≤ 253) or label (≤ 63) of lower-case alphanumerics, '-'
/// and '.'.
bool isDnsSubdomain(std::string_view name);
bool isDnsLabel(std::string_view name);
/// A label or annotation key: [prefix/]name. A label value: empty or ≤ 63 characters.
bool isQualifiedName(std::string_view key);
bool isLabelValue(std::string_view value);

}  // namespace egpu::apiserver
