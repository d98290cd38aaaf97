#include "controller/reconcile/pod/node_fit/taints.h"

#include <algorithm>

namespace egpu::reconcile {
namespace {

bool tolerated(const core::Pod& pod, const core::Taint& taint) {
  return std::any_of(pod.tolerations.begin(), pod.tolerations.end(),
                     [&](const auto& toleration) { return tolerates(toleration, taint); });
}

}  // namespace

bool tolerates(const core::Toleration& toleration, const core::Taint& taint) {
  if (!toleration.effect.empty() && toleration.effect != taint.effect) return false;
  if (toleration.op == "Exists") return toleration.key.empty() || toleration.key == taint.key;
  if (!toleration.op.empty() && toleration.op != "Equal") return false;
  return toleration.key == taint.key && toleration.value == taint.value;
}

const core::Taint* untolerated(const core::Pod& pod, const core::Node& node) {
  for (const auto& taint : node.taints)
    if ((taint.effect == "NoSchedule" || taint.effect == "NoExecute") && !tolerated(pod, taint)) return &taint;
  return nullptr;
}

int64_t taintsToAvoid(const core::Pod& pod, const core::Node& node) {
  return std::count_if(node.taints.begin(), node.taints.end(),
                       [&](const auto& taint) { return taint.effect == "PreferNoSchedule" && !tolerated(pod, taint); });
}

bool cordonedFor(const core::Pod& pod, const core::Node& node) {
  return node.unschedulable && !tolerated(pod, {"node.kubernetes.io/unschedulable", "", "NoSchedule"});
}

}  // namespace egpu::reconcile
