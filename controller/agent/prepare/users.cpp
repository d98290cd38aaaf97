#include "controller/agent/prepare/users.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/v1alpha/pod_claims.h"
#include "controller/codec/cdi_spec.h"

namespace egpu::agent {

SharedReads<std::vector<core::Pod>>::Answer Users::podsIn(const std::string& namespace_, const std::stop_token& stop) {
  const auto read = [&](std::stop_token its) {
    kube::ListOptions options;
    options.namespace_ = namespace_;
    options.fieldSelector = "spec.nodeName=" + node_;
    return client_.listAll<core::Pod>(options, std::move(its));
  };
  return pods_.get(namespace_, read, stop);
}

bool Users::uses(const core::Pod& pod, const ClaimRef& claim) const {
  return !pod.finished() && pod.nodeName == node_ && v1alpha::usesClaim(pod, claim.name);
}

base::Result<std::vector<core::Pod>> Users::podsOf(const ClaimRef& claim, const std::stop_token& stop) {
  const auto all = podsIn(claim.namespace_, stop);
  if (!all) return all.status();
  std::vector<core::Pod> out;
  std::copy_if((*all)->begin(), (*all)->end(), std::back_inserter(out),
               [&](const core::Pod& pod) { return uses(pod, claim); });
  return out;
}

base::Result<std::string> Users::runningPodOf(const ClaimRef& claim, const std::stop_token& stop, Ending ending) {
  const auto pods = podsOf(claim, stop);
  if (!pods) return pods.status();
  for (const auto& pod : *pods) {
    if (pod.metadata.deleting() && ending == Ending::passedOver) continue;
    kube::HttpRequest get;
    get.target = kube::Client::path(core::kindOf<core::Pod>, pod.metadata.namespace_, pod.metadata.name);
    get.timeout = client_.options().requestTimeout;
    const auto answer = client_.call(std::move(get), stop);
    if (!answer && answer.status().code() == base::Code::notFound) continue;
    if (!answer) return answer.status();
    if (codec::hasRunningContainer(answer->body)) return core::keyOf(pod.metadata).str();
  }
  return std::string();
}

}  // namespace egpu::agent
