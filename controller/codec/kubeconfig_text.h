// A kubeconfig with one more cluster in it, and everything else of it kept.
#pragma once

#include <string>
#include <string_view>

#include "controller/base/status.h"

namespace egpu::codec {

struct MergedKubeconfig {
  std::string yaml;
  std::string currentContext;
};

/// As `kubectl config set-cluster`, `set-credentials` and `set-context` would leave the file: the cluster `name` gets
/// this server, user and context of that name are there and belong together; whatever else stands in the file, also in
/// these three, stays (comments don't, nor does kubectl keep them). current-context becomes `name` only if there was
/// none. Empty text makes a new kubeconfig. Code::invalid: it is no kubeconfig.
base::Result<MergedKubeconfig> mergeKubeconfig(std::string_view yaml, const std::string& name,
                                               const std::string& server);

}  // namespace egpu::codec
