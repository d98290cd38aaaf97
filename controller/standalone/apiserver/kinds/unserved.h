// Kinds that every cluster has, but this server does not support. Discovery lists them without verbs, so that clients
// request them and show this server's explanation instead of reporting an unknown kind.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "controller/standalone/apiserver/kinds/resource.h"

namespace egpu::apiserver {

struct UnservedKind {
  std::string_view group, version, plural, kind;
  bool namespaced = true;
  std::string_view shortName = {};  ///< empty = none
};

/// Returns the unsupported kinds that `table` does not serve, in the order of discovery.
std::vector<UnservedKind> unservedKinds(const ResourceTable& table);

/// Returns why a resource is not served: "this embedded API server is for trying out and does not serve
/// deployments.apps; it serves namespaces, …". For a resource that is served only in other versions, the message names
/// those versions.
std::string whyNotServed(const ResourceTable& table, std::string_view group, std::string_view version,
                         std::string_view plural);

}  // namespace egpu::apiserver
