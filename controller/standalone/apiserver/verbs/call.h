// A parsed REST request: resource, object and query parameters.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/http/http.h"
#include "controller/standalone/apiserver/kinds/resource.h"
#include "controller/standalone/apiserver/storage/store.h"

namespace egpu::apiserver {

/// A parsed request. Valid as long as its http::Request.
struct RequestInfo {
  const http::Request* request = nullptr;
  const Resource* resource = nullptr;
  std::string version;      ///< requested API version
  Key key;                  ///< name empty: the collection; ns empty: cluster scope or all namespaces
  std::string subresource;  ///< "", "status", "binding", "eviction"
  std::vector<std::pair<std::string, std::string>> query;

  /// Returns the first value of a query parameter, or an empty string.
  std::string_view param(std::string_view name) const;
  /// Returns a boolean parameter ("true", "1", "false", …). Throws ApiError 400 for other values.
  bool flag(std::string_view name) const;
  /// Returns a non-negative integer parameter, or nullopt if it is absent. Throws ApiError 400 for other values.
  std::optional<int64_t> number(std::string_view name) const;
  bool dryRun() const;
};

/// Parses a request. Throws ApiError 404 for paths that are not served.
RequestInfo requestInfoOf(const ResourceTable& table, const http::Request& request);

/// Return the object in the requested version, as text or as JSON.
std::string textAs(const Object& object, const Resource& resource, std::string_view version);
Json bodyAs(const Object& object, const Resource& resource, std::string_view version);

/// Returns the string at metadata.<name>, or an empty string.
std::string metaString(const Json& object, const char* name);
bool isDeleting(const Json& object);
bool hasFinalizers(const Json& object);

}  // namespace egpu::apiserver
