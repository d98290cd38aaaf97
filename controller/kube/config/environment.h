// The environment of the process: variables and the service account's folder.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace egpu::kube {

/// Tests replace it.
struct Environment {
  std::function<std::optional<std::string>(const std::string& name)> variable;  ///< unset = nullopt
  std::string serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount";
  static Environment process();  ///< environment of this process
};

}  // namespace egpu::kube
