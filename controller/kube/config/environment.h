// What the process gives: variables and the service account's folder.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace egpu::kube {

/// Replaced in tests.
struct Environment {
  std::function<std::optional<std::string>(const std::string& name)> variable;  ///< unset = nullopt
  std::string serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount";
  static Environment process();  ///< the real one
};

}  // namespace egpu::kube
