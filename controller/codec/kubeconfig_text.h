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

/// Changes a kubeconfig as `kubectl config set-cluster`, `set-credentials` and `set-context` do. Sets the server of the
/// cluster `name`, and adds the user and the context `name` if they are missing. The context then refers to that
/// cluster and that user. All other content stays, also inside these three entries, but comments are lost, as with
/// kubectl. current-context becomes `name` only if it was empty. Empty text results in a new kubeconfig. Fails with
/// Code::invalid if the text is not a kubeconfig.
base::Result<MergedKubeconfig> mergeKubeconfig(std::string_view yaml, const std::string& name,
                                               const std::string& server);

}  // namespace egpu::codec
