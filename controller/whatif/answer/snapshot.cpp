#include "controller/whatif/answer/snapshot.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/claim/resolve.h"
#include "controller/reconcile/class/class.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/class/remote_class.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/pod/node_fit/node_fit.h"
#include "controller/reconcile/pod/node_fit/resources.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/resourceclaim/bridge.h"
#include "controller/scheduler/quota/on_a_copy.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::whatif {

namespace {

using cache::Claim;
using cache::Stores;

/// True for nodes on which all these pods can run. A hypothetical node satisfies every pod.
scheduler::NodePredicate suitsAll(const Stores& stores, std::vector<cache::Store<core::Pod>::Ptr> pods) {
  return [&stores, pods = std::move(pods)](std::string_view name) {
    const auto node = stores.nodes.get({"", std::string(name)});
    if (!node) return true;
    for (const auto& pod : pods) {
      if (!reconcile::nodeUnsuitable(*pod, {}, *node).empty()) return false;
      const auto taken = stores.usage.of(name, core::keyOf(pod->metadata));
      if (!reconcile::shortOf(cache::requestsOf(*pod), taken, *node).empty()) return false;
    }
    return true;
  };
}

bool pinsTo(const core::NodeSelectorRequirement& field, const std::string& node) {
  return field.key == "metadata.name" && field.op == "In" && field.values == std::vector<std::string>{node};
}

/// Removes the node pin that the binding of the pod's claims wrote (codec::patch::pinAndLift). A DaemonSet's own pin
/// looks the same, and is kept because its pod would return to the same node.
void unpin(core::Pod& pod, const std::string& node) {
  const auto& owners = pod.metadata.ownerReferences;
  const bool ofNode =
      std::any_of(owners.begin(), owners.end(), [](const auto& owner) { return owner.kind == "DaemonSet"; });
  if (ofNode || !pod.requiredNodeAffinity) return;
  auto& terms = pod.requiredNodeAffinity->terms;
  for (auto& term : terms)
    if (!term.matchFields.empty() && pinsTo(term.matchFields.back(), node)) {
      term.matchFields.pop_back();
      if (terms.size() == 1 && term.matchFields.empty() && term.matchExpressions.empty())
        return pod.requiredNodeAffinity.reset();  // the pin was the whole affinity
    }
}

/// Returns the pods that use the claim without their nodes, because a move recreates them: their constraints on the new
/// node.
std::vector<cache::Store<core::Pod>::Ptr> consumersOf(const Stores& stores, const Claim& claim) {
  std::vector<cache::Store<core::Pod>::Ptr> consumers;
  for (const auto& pod : stores.podsOfClaim(core::keyOf(claim.metadata))) {
    if (!reconcile::isUser(stores, *pod)) continue;
    auto anew = *pod;
    anew.nodeName.clear();
    unpin(anew, claim.status.nodeName);
    consumers.push_back(std::make_shared<const core::Pod>(std::move(anew)));
  }
  return consumers;
}

/// Counts the amounts that the quotas cover: those of claims, and of devices whose claim is gone.
void countQuotas(const Stores& stores, scheduler::Situation& situation) {
  std::map<std::string, std::vector<scheduler::Quota>> quotas;
  stores.quotas.forEach([&](const auto& quota) {
    for (auto& limits : scheduler::readQuotas(*quota)) quotas[quota->metadata.namespace_].push_back(std::move(limits));
  });
  if (quotas.empty()) return;
  for (auto& [space, all] : quotas) situation.quotas.setQuotas(space, std::move(all));
  std::map<std::string, scheduler::QuotaClaim, std::less<>> owners;
  stores.devices.forEach([&](const auto& device) {
    const auto& spec = device->spec;
    if (spec.claimRef)
      owners[device->metadata.uid] =
          scheduler::quotaClaim(spec.claimRef->namespace_ + "/" + spec.claimRef->name, spec.className);
  });
  for (const auto& claim : situation.claims)
    if (!claim.device.empty()) owners[claim.device] = scheduler::quotaClaim(claim.name, claim.className);
  for (const auto& [device, holdings] : scheduler::holdingsOf(situation.cluster))
    if (const auto owner = owners.find(device); owner != owners.end())
      scheduler::count(situation.quotas, situation.cluster, device, owner->second, holdings);
}

/// Returns which existing device the claim is to get; empty if a new one is made.
std::string existingDeviceText(const Stores& stores, const Claim& claim) {
  if (reconcile::isStatic(claim)) {
    const auto named = stores.gpu(claim.spec.elasticGPUName);
    return named && named->isDevice() ? "it names the device " + claim.spec.elasticGPUName : std::string();
  }
  const auto reserved = stores.devicesReservedFor(core::keyOf(claim.metadata));
  return reserved.empty() ? std::string() : "the device " + reserved.front()->metadata.name + " is reserved for it";
}

}  // namespace

cache::Store<cache::Gpu>::Ptr deviceOf(const Stores& stores, const Claim& claim) {
  const auto devices = stores.devicesOfClaim(claim.metadata.uid);
  for (const auto& device : devices)
    if (device->metadata.name == claim.status.elasticGPUName) return device;
  for (const auto& device : devices)
    if (!device->metadata.deleting()) return device;
  return nullptr;
}

std::string Snapshot::holder(std::string_view device) const {
  const auto it = holders.find(device);
  return it == holders.end() ? "device " + std::string(device) : it->second;
}

std::string decidedWith(const Stores& stores, const Claim& claim) {
  if (!reconcile::inGang(stores, claim)) return {};
  const auto gang = reconcile::gangOf(stores, claim);
  return gang ? "it is scheduled with all members of " + gang->text()
              : std::string("it is scheduled with its gang, which is not known yet or not valid");
}

std::string remoteText(const cache::Class& cls) {
  return "class " + cls.metadata.name +
         " provides remote GPUs: no card and no node is chosen, and only its provisioner knows whether one is free";
}

scheduler::ClaimRecord recordOf(const Stores& stores, const Claim& claim, bool evenIdle) {
  scheduler::ClaimRecord record;
  record.name = core::keyOf(claim.metadata).str();
  if (const auto device = deviceOf(stores, claim)) record.device = device->metadata.uid;
  if (claim.metadata.deleting()) {
    record.why = "it is being deleted";
    return record;
  }
  record.why = existingDeviceText(stores, claim);
  if (!record.why.empty()) return record;
  record.className = reconcile::classNameOf(stores, claim);
  const auto cls = reconcile::classOf(stores, claim, &record.why);
  if (!cls) return record;
  auto made = reconcile::schedulingRequestOf(stores, claim, *cls);
  if (const auto* refusal = std::get_if<scheduler::Refusal>(&made)) {
    record.why = (refusal->field.empty() ? "" : refusal->field + ": ") + refusal->message;
    return record;
  }
  if (reconcile::isRemote(stores, *cls)) {
    record.why = remoteText(*cls);
    return record;
  }
  const bool waits = reconcile::isPlacedWithPod(stores, claim, *cls);
  auto obstacle = record.device.empty() ? reconcile::obstacleOf(stores, claim, waits) : reconcile::PodObstacle();
  if (waits) {
    auto consumers = consumersOf(stores, claim);
    if (consumers.empty() && record.device.empty() && !obstacle) {
      record.why = "it waits for the first pod that uses it";
      if (!evenIdle) return record;
    }
    if (!consumers.empty()) record.suits = suitsAll(stores, std::move(consumers));
  } else {
    record.suits = reconcile::toleratedNodes(stores, *cls);
    record.whyUnsuited = untolerated;
  }
  if (obstacle) {
    record.why = std::move(obstacle.message);
    if (!evenIdle) return record;
  }
  if (auto others = record.device.empty() ? decidedWith(stores, claim) : std::string(); !others.empty()) {
    record.why = std::move(others);
    if (!evenIdle) return record;
  }
  record.request = std::get<scheduler::Request>(std::move(made));
  if (!claim.spec.firstAvailable.empty())
    record.alternatives = std::get<0>(reconcile::schedulingRequestsOf(stores, claim, *cls));
  return record;
}

std::string untolerated(std::string_view) { return std::string(reconcile::kUntolerated); }

scheduler::NodePredicate suitsPodsOf(const Stores& stores, const Claim& claim) {
  auto consumers = consumersOf(stores, claim);
  return consumers.empty() ? scheduler::NodePredicate() : suitsAll(stores, std::move(consumers));
}

Snapshot takeSnapshot(const Stores& stores, const allocator::Allocator& cluster, const scheduler::Pause& pause) {
  Snapshot snapshot;
  snapshot.situation.cluster = cluster.queries().copy();
  std::set<std::string, std::less<>> decided;
  for (const auto& [device, holdings] : scheduler::holdingsOf(snapshot.situation.cluster))
    if (device.starts_with("claim/")) decided.insert(device);
  stores.devices.forEach(
      [&](const auto& device) { snapshot.holders[device->metadata.uid] = "device " + device->metadata.name; });
  stores.claims.forEach([&](const auto& claim) {
    if (pause) pause();
    auto record = recordOf(stores, *claim);
    // The decision exists, but its device is not in the store yet: the claim has its place.
    if (const auto key = "claim/" + claim->metadata.uid; record.device.empty() && decided.count(key) != 0)
      record.device = key;
    if (!record.device.empty()) snapshot.holders[record.device] = record.name;
    snapshot.situation.claims.push_back(std::move(record));
  });
  countQuotas(stores, snapshot.situation);
  return snapshot;
}

}  // namespace egpu::whatif
