// Discovery documents: /api, /apis, /apis/<group>, /apis/<group>/<version>, /version, plain and aggregated. Pure
// functions.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "controller/standalone/apiserver/kinds/resource.h"

namespace egpu::apiserver {

/// The answer to a discovery request and the Content-Type it must carry.
struct DiscoveryAnswer {
  nlohmann::json body;
  std::string contentType = "application/json";
};

/// Answers `path` ("/api", "/apis/elasticgpu.io/v1alpha", "/version", …) or nullopt if it is no discovery path or the
/// group or version is unknown. `accept` chooses the aggregated form on /api and /apis; `address` is this server's
/// "host:port".
std::optional<DiscoveryAnswer> discover(const ResourceTable& table, std::string_view path, std::string_view accept,
                                        std::string_view address);

}  // namespace egpu::apiserver
