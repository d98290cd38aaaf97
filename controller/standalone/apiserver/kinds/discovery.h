// Discovery documents: /api, /apis, /apis/<group>, /apis/<group>/<version>, /version, plain and aggregated. Pure
// functions.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "controller/standalone/apiserver/kinds/resource.h"

namespace egpu::apiserver {

/// Answer to a discovery request, with its Content-Type.
struct DiscoveryAnswer {
  nlohmann::json body;
  std::string contentType = "application/json";
};

/// Answers a request for `path` ("/api", "/apis/elasticgpu.io/v1alpha", "/version", …). Returns nullopt if it is not a
/// discovery path or the group or version is unknown. `accept` selects the aggregated form on /api and /apis. `address`
/// is the "host:port" of this server.
std::optional<DiscoveryAnswer> discover(const ResourceTable& table, std::string_view path, std::string_view accept,
                                        std::string_view address);

}  // namespace egpu::apiserver
