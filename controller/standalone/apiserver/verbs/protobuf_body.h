// Decodes Kubernetes' protobuf request bodies, for the two objects that clients send in this format: the Namespace of
// `kubectl create namespace`, and the DeleteOptions of typed clients.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace egpu::apiserver {

inline constexpr std::string_view kProtobuf = "application/vnd.kubernetes.protobuf";

/// Returns a Namespace (name, generateName, labels, annotations) or DeleteOptions (grace period, preconditions,
/// propagation policy, dryRun) as JSON. Returns nullopt if the body is another object or malformed.
std::optional<nlohmann::json> decodeProtobufBody(std::string_view body);

}  // namespace egpu::apiserver
