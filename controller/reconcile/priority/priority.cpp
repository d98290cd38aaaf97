#include "controller/reconcile/priority/priority.h"

#include <algorithm>
#include <optional>

#include "controller/reconcile/pod/schedulability.h"

namespace egpu::reconcile {

namespace {

constexpr int64_t kHighestForUsers =
    1'000'000'000;  // higher values are Kubernetes' own: scheduling's HighestUserDefinablePriority

Priority ofClass(const cache::Stores& stores, const cache::Claim& claim) {
  const auto& name = claim.spec.priorityClassName;
  if (name.starts_with("system-") && claim.metadata.namespace_ != "kube-system")
    return {claim.status.priority, false, "PriorityClass " + name + " is for claims in namespace kube-system"};
  if (const auto found = stores.priorityClasses.get({"", name})) return {found->value, found->preempts};
  return {claim.status.priority, false, "there is no PriorityClass " + name};
}

Priority byDefault(const cache::Stores& stores) {
  std::optional<Priority> lowest;
  stores.priorityClasses.forEach([&](const auto& each) {
    if (each->globalDefault && (!lowest || each->value < lowest->value)) lowest = {each->value, each->preempts};
  });
  return lowest.value_or(Priority{});
}

}  // namespace

Priority priorityOf(const cache::Stores& stores, const cache::Claim& claim) {
  if (!claim.spec.priorityClassName.empty()) return ofClass(stores, claim);
  const auto pod = stores.firstPodByPriority(core::keyOf(claim.metadata),
                                             [&stores](const core::Pod& each) { return isUser(stores, each); });
  if (!pod) return byDefault(stores);
  const bool isSystem = claim.metadata.namespace_ == "kube-system";
  return {isSystem ? pod->priority : std::min(pod->priority, kHighestForUsers), pod->preempts};
}

}  // namespace egpu::reconcile
