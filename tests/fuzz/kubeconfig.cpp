#include "controller/kube/config/kubeconfig.h"

#include "tests/fuzz/targets.h"

namespace egpu::testing {

void fuzzKubeconfig(std::string_view bytes) {
  // A zero byte separates two files, so that merging is reached, too.
  const std::size_t cut = bytes.find('\0');
  std::vector<kube::KubeconfigFile> files{{"/nowhere/first", std::string(bytes.substr(0, cut))}};
  if (cut != std::string_view::npos) files.push_back({"/nowhere/second", std::string(bytes.substr(cut + 1))});
  const auto endpoint = kube::resolveKubeconfig(files);
  promise(endpoint.ok() || !endpoint.status().message().empty(), "a refusal says why");
  const auto named = kube::resolveKubeconfig(files, "no such context");
  promise(named.ok() || !named.status().message().empty(), "a refusal says why");
}

}  // namespace egpu::testing
