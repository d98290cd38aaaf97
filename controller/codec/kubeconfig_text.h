// Adds a cluster to a kubeconfig and keeps the rest of the file.
#pragma once

#include <string>
#include <string_view>

#include "controller/base/status.h"

namespace egpu::codec {

struct MergedKubeconfig {
  std::string yaml;
  std::string currentContext;
};

/// Changes a kubeconfig as `kubectl config set-cluster`, `set-credentials` and `set-context` do: sets the server of the
/// cluster `name`, and connects it to a user and a context of this name. All other content stays, also in these three
/// entries, but comments are lost, as with kubectl. current-context becomes `name` only if it was empty. Empty text
/// results in a new kubeconfig. Fails with Code::invalid if the text is not a kubeconfig.
base::Result<MergedKubeconfig> mergeKubeconfig(std::string_view yaml, const std::string& name,
                                               const std::string& server);

}  // namespace egpu::codec
