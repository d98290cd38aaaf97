// --write-kubeconfig: our cluster beside whatever else the file holds.
#pragma once

#include <string>

#include "controller/base/status.h"

namespace egpu::cmd {

/// What our cluster, user and context are called.
inline constexpr const char* kKubeconfigName = "elastic-gpu-standalone";

/// Adds the API server to the kubeconfig (codec/kubeconfig_text.h says what stays), or makes the file. Under kubectl's
/// lock, PATH.lock, so that neither loses what the other writes. Symbolic links are refused. The context that is
/// current afterwards.
base::Result<std::string> addToKubeconfig(const std::string& path, const std::string& server);

}  // namespace egpu::cmd
