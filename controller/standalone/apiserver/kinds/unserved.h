// The kinds that every cluster has and this server does not. Discovery names them, without verbs, so that clients ask
// for them and are told why they are refused, instead of that there is no such thing.
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

/// Those that `table` does not serve, in the order in which discovery names them.
std::vector<UnservedKind> unservedKinds(const ResourceTable& table);

/// "this embedded API server is for trying out and does not serve deployments.apps; it serves namespaces, …". Of a
/// resource that is served in other versions only, which ones.
std::string whyNotServed(const ResourceTable& table, std::string_view group, std::string_view version,
                         std::string_view plural);

}  // namespace egpu::apiserver
