// Kubernetes' protobuf request bodies, for the two objects that kubectl sends that way: the Namespace of `create
// namespace`, and DeleteOptions of typed clients.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace egpu::apiserver {

inline constexpr std::string_view kProtobuf = "application/vnd.kubernetes.protobuf";

/// A Namespace (name, generateName, labels, annotations) or DeleteOptions (grace period, preconditions, propagation
/// policy, dryRun) as JSON. nullopt if the body is anything else or malformed.
std::optional<nlohmann::json> decodeProtobufBody(std::string_view body);

}  // namespace egpu::apiserver
