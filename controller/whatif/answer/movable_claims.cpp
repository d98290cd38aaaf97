#include "controller/whatif/answer/movable_claims.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/priority/preemption.h"
#include "controller/reconcile/resourceclaim/adopter.h"
#include "controller/scheduler/quota/on_a_copy.h"
#include "controller/whatif/answer/snapshot.h"
#include "controller/whatif/question/pod_subject.h"

namespace egpu::whatif {

namespace {

/// True if the pod can be evicted and its controller recreates it on whichever node its claim is then.
bool canGo(const core::Pod& pod) {
  if (pod.metadata.deleting() || claimsOfPod(pod, pod.metadata.namespace_).size() > 1) return false;
  const auto* maker = pod.metadata.controller();
  return maker != nullptr && maker->kind != "DaemonSet";
}

/// Returns the pods that would be evicted; none if one of them can't be.
std::optional<std::vector<std::string>> podsToMove(const cache::Stores& stores, const core::ObjectKey& claim) {
  std::vector<std::string> names;
  for (const auto& pods : {stores.podsOfClaim(claim), stores.podsAnnotatedWith(claim)})
    for (const auto& pod : pods) {
      const bool held = reconcile::gated(*pod) && !reconcile::isConsumer(stores, *pod);  // it has no node to leave
      if (!reconcile::alive(*pod) || held) continue;
      if (!canGo(*pod)) return std::nullopt;
      names.push_back(core::keyOf(pod->metadata).str());
    }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

/// Combines two predicates: the class's conditions on a node, and those of the claim's pods.
scheduler::NodePredicate both(scheduler::NodePredicate a, scheduler::NodePredicate b) {
  if (!a || !b) return a ? a : b;
  return [a = std::move(a), b = std::move(b)](std::string_view node) { return a(node) && b(node); };
}

bool ready(const cache::Stores& stores, const std::string& className) {
  const auto cls = stores.classes.get({"", className});
  const auto* condition = cls ? reconcile::findCondition(cls->conditions, reconcile::kReady) : nullptr;
  return condition == nullptr || condition->status != "False";
}

}  // namespace

void holdToQuotas(MovableClaims& claims, scheduler::Situation& now) {
  const auto holdings = scheduler::holdingsOf(now.cluster);
  for (const auto& claim : now.claims) {
    const auto mover = claims.movers.find(claim.device);
    const auto has = holdings.find(claim.device);
    if (mover == claims.movers.end() || has == holdings.end()) continue;
    const auto owner = scheduler::quotaClaim(claim.name, claim.className);
    if (!scheduler::excessAnew(now.quotas, now.cluster, claim.device, owner, has->second)) {
      mover->second.request.quota = now.quotas.remaining(owner);
      continue;
    }
    claims.movers.erase(mover);
    claims.known.erase(claim.device);
  }
}

void closeNodes(MovableClaims& claims, const std::set<std::string, std::less<>>& nodes) {
  if (nodes.empty()) return;
  const auto shared = std::make_shared<const std::set<std::string, std::less<>>>(nodes);
  for (auto& [device, mover] : claims.movers)
    mover.suits = both(std::move(mover.suits), [shared](std::string_view node) { return !shared->contains(node); });
}

MovableClaims movableClaims(const cache::Stores& stores, bool onlyEvictable, const scheduler::Pause& pause) {
  std::vector<cache::Store<cache::Gpu>::Ptr> devices;
  stores.devices.forEach([&](const auto& device) { devices.push_back(device); });
  MovableClaims all;
  for (const auto& device : devices) {
    if (pause) pause();
    const auto claim = reconcile::movableClaim(stores, *device);
    if (!claim) continue;
    const auto key = core::keyOf(claim->metadata);
    auto pods = podsToMove(stores, key);
    const bool stamped = !reconcile::madeFor(*claim).empty();
    const bool evictable = pods && (pods->size() == 1 || (pods->empty() && !stamped));
    if (!pods || (onlyEvictable && !evictable)) continue;
    auto record = recordOf(stores, *claim);
    if (!record.request || !ready(stores, record.className)) continue;
    const auto& uid = device->metadata.uid;
    all.movers[uid] = {std::move(*record.request), both(std::move(record.suits), suitsPodsOf(stores, *claim))};
    all.known[uid] = {key.str(), device->metadata.name,        device->spec.nodeName, std::move(*pods),
                      evictable, stamped ? std::string() : uid};
  }
  return all;
}

}  // namespace egpu::whatif
