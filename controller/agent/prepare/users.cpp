#include "controller/agent/prepare/users.h"

#include <algorithm>

#include "controller/codec/cdi_spec.h"

namespace egpu::agent {

base::Result<std::vector<core::Pod>> podsOf(kube::Client& client, const ClaimRef& claim, const std::string& node,
                                            std::stop_token stop) {
  kube::ListOptions options;
  options.namespace_ = claim.namespace_;
  options.fieldSelector = "spec.nodeName=" + node;
  auto pods = client.listAll<core::Pod>(options, stop);
  if (!pods) return pods;
  std::erase_if(*pods, [&](const core::Pod& pod) {
    return pod.finished() || pod.nodeName != node ||
           std::none_of(pod.resourceClaims.begin(), pod.resourceClaims.end(),
                        [&](const auto& each) { return each.resourceClaimName == claim.name; });
  });
  return pods;
}

base::Result<std::string> runningPodOf(kube::Client& client, const ClaimRef& claim, const std::string& node,
                                       std::stop_token stop) {
  const auto pods = podsOf(client, claim, node, stop);
  if (!pods) return pods.status();
  for (const auto& pod : *pods) {
    if (pod.metadata.deleting()) continue;
    kube::HttpRequest get;
    get.target = kube::Client::path(core::kindOf<core::Pod>, pod.metadata.namespace_, pod.metadata.name);
    get.timeout = client.options().requestTimeout;
    const auto answer = client.call(std::move(get), stop);
    if (!answer && answer.status().code() == base::Code::notFound) continue;
    if (!answer) return answer.status();
    if (codec::hasRunningContainer(answer->body)) return core::keyOf(pod.metadata).str();
  }
  return std::string();
}

}  // namespace egpu::agent
