// --write-kubeconfig: adds our cluster to a kubeconfig without changing its other contents.
#pragma once

#include <string>

#include "controller/base/status.h"

namespace egpu::cmd {

/// Name of our cluster, user and context.
inline constexpr const char* kKubeconfigName = "elastic-gpu-standalone";

/// Adds the API server to the kubeconfig (codec/kubeconfig_text.h lists the contents that stay), or creates the file.
/// Holds kubectl's lock, PATH.lock, so that concurrent writes are not lost. Refuses symbolic links. Returns the current
/// context after the write.
base::Result<std::string> addToKubeconfig(const std::string& path, const std::string& server);

}  // namespace egpu::cmd
