// Kubernetes' protobuf request bodies, for the one object that kubectl sends that way: the Namespace of `kubectl create namespace`.
#pragma once

#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

namespace egpu::apiserver {

inline constexpr std::string_view kKubernetesProtobuf = "application/vnd.kubernetes.protobuf";

/// The Namespace in `body` as JSON: its name, generateName, labels and annotations. nullopt if the body is anything else or malformed.
std::optional<nlohmann::json> namespaceFromProtobuf(std::string_view body);

}  // namespace egpu::apiserver
