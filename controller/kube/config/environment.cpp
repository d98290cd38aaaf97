#include "controller/kube/config/environment.h"

#include <cstdlib>

namespace egpu::kube {

Environment Environment::process() {
  Environment environment;
  environment.variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value =
        std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nothing in this program sets variables
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
  return environment;
}

}  // namespace egpu::kube
