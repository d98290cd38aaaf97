// One REST request, understood: which resource, which object, which query parameters.
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

/// Lives as long as its http::Request.
struct Call {
  const http::Request* request = nullptr;
  const Resource* resource = nullptr;
  std::string version;      ///< the API version that was asked for
  Key key;                  ///< name empty: the collection; ns empty: cluster scope or all namespaces
  std::string subresource;  ///< "", "status", "binding", "eviction"
  std::vector<std::pair<std::string, std::string>> query;

  /// The first value of a query parameter, or empty.
  std::string_view param(std::string_view name) const;
  /// "true", "1" and the like; anything else is a 400.
  bool flag(std::string_view name) const;
  /// A non-negative integer; absent = nothing; anything else is a 400.
  std::optional<int64_t> number(std::string_view name) const;
  bool dryRun() const;
};

/// Throws ApiError 404 for paths that are not served.
Call parseCall(const ResourceTable& table, const http::Request& request);

/// `object` as it reads in the version that was asked for.
std::string textAs(const Object& object, const Resource& resource, std::string_view version);
Json bodyAs(const Object& object, const Resource& resource, std::string_view version);

/// The string at metadata.<name>, or empty.
std::string metaString(const Json& object, const char* name);
bool isDeleting(const Json& object);
bool hasFinalizers(const Json& object);

}  // namespace egpu::apiserver
