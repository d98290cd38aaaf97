// OpenAPI documents of all served kinds, for `kubectl explain` and client-side validation: v2 as JSON and as the
// protobuf that kubectl requests, and v3.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "controller/standalone/apiserver/kinds/resource.h"

namespace egpu::apiserver {

struct OpenApiAnswer {
  std::string_view body;
  std::string_view contentType;
};

/// Creates all documents in its constructor. Immutable afterwards, so thread-safe.
class OpenApi {
 public:
  explicit OpenApi(const ResourceTable& table);
  /// Answers "/openapi/v2", "/openapi/v3" and "/openapi/v3/<api/v1|apis/group/version>"; an empty body = not found.
  OpenApiAnswer answer(std::string_view path, std::string_view accept) const;

 private:
  std::string v2Json_, v2Proto_, v3Index_;
  std::map<std::string, std::string, std::less<>> v3_;  ///< by "apis/elasticgpu.io/v1alpha"
};

/// Encodes a swagger 2.0 document in gnostic's protobuf format (openapi.v2.Document). Vendor extensions become YAML
/// text.
std::string encodeSwagger(const nlohmann::json& swagger);

}  // namespace egpu::apiserver
