#include "controller/reconcile/pod/node_fit/node_fit.h"

#include <algorithm>

#include "controller/reconcile/pod/node_fit/affinity.h"
#include "controller/reconcile/pod/node_fit/taints.h"
#include "controller/reconcile/pod/node_fit/volumes.h"

namespace egpu::reconcile {

std::string nodeUnsuitable(const core::Pod& pod, const std::vector<core::NodeSelector>& volumes,
                           const core::Node& node) {
  if (!pod.nodeName.empty()) return pod.nodeName == node.metadata.name ? "" : "not the pod's own " + pod.nodeName;
  if (cordonedFor(pod, node)) return "cordoned";
  if (!node.ready) return "not ready";
  for (const auto& wanted : pod.nodeSelector)
    if (!selects({wanted}, node)) return "not labelled " + wanted.first + "=" + wanted.second + " as the pod selects";
  if (pod.requiredNodeAffinity && !matches(*pod.requiredNodeAffinity, node))
    return "excluded by the pod's required node affinity";
  if (const auto* taint = untolerated(pod, node))
    return "tainted " + taint->key + (taint->value.empty() ? "" : "=" + taint->value) + ":" + taint->effect +
           ", which the pod does not tolerate";
  if (!reachable(volumes, node)) return "out of reach of the pod's volumes";
  return {};
}

NodeScore scoreOf(const core::Pod& pod, const core::Node& node) {
  return {preference(pod, node), taintsToAvoid(pod, node)};
}

std::vector<int64_t> normalised(const std::vector<NodeScore>& scores) {
  constexpr int64_t kMax = 100, kAffinityWeight = 2, kTaintWeight = 3;
  int64_t preferred = 0, avoided = 0;
  for (const auto& score : scores) {
    preferred = std::max(preferred, score.preferred);
    avoided = std::max(avoided, score.avoided);
  }
  std::vector<int64_t> out;
  out.reserve(scores.size());
  for (const auto& score : scores) {
    const int64_t liked = preferred > 0 ? kMax * score.preferred / preferred : 0;
    const int64_t clean = avoided > 0 ? kMax - kMax * score.avoided / avoided : kMax;
    out.push_back(kAffinityWeight * liked + kTaintWeight * clean);
  }
  return out;
}

}  // namespace egpu::reconcile
