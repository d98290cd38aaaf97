#include "controller/reconcile/routing.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "api/v1alpha/gang.h"
#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "api/v1alpha/remote.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/queue_key.h"
#include "controller/reconcile/resourceclaim/adopter.h"
#include "controller/reconcile/resourceclaim/bridge.h"
#include "controller/scheduler/choice/class_models.h"
#include "controller/scheduler/quota/quota.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace {
std::string_view reasonOf(const cache::Claim& claim) {
  const auto* bound = findCondition(claim.status.conditions, kBound);
  return bound == nullptr ? std::string_view() : std::string_view(bound->reason);
}

/// Returns the objects in queue order, the oldest first.
template <class Ptr>
std::vector<Ptr> olderFirst(std::vector<Ptr> objects) {
  std::sort(objects.begin(), objects.end(),
            [](const Ptr& a, const Ptr& b) { return ageOf(a->metadata) < ageOf(b->metadata); });
  return objects;
}

core::ObjectKey claimOf(const v1alpha::ClaimRef& ref) { return {ref.namespace_, ref.name}; }

/// True if nothing changed that matters to the users of the card. Whether it is full does not.
bool sameHealth(const cache::Gpu& a, const cache::Gpu& b) {
  return cache::troubleOf(a) == cache::troubleOf(b) && a.metadata.deletionTimestamp == b.metadata.deletionTimestamp &&
         a.spec.card == b.spec.card && a.status.bypassed == b.status.bypassed &&
         a.status.accessLost == b.status.accessLost;
}

/// True if an entry is gone, or is smaller.
bool gaveBack(const cache::Gpu& before, const cache::Gpu& after) {
  return std::any_of(before.spec.allocations.begin(), before.spec.allocations.end(), [&](const auto& entry) {
    const auto now = after.spec.allocations.find(entry.first);
    return now == after.spec.allocations.end() || now->second.core < entry.second.core ||
           now->second.memory < entry.second.memory;
  });
}

/// Bytes by which the entries exceed the card's memory.
int64_t overdrawn(const cache::Gpu& card) {
  int64_t sum = -card.spec.card->memory;
  for (const auto& [uid, entry] : card.spec.allocations) sum += entry.memory;
  return std::max<int64_t>(0, sum);
}

/// Usage of the card by a device; nullopt if the card's usage is unknown.
std::optional<v1alpha::DeviceUsage> useOf(const cache::Gpu* card, const std::string& deviceUid) {
  if (card == nullptr || !card->status.usage) return std::nullopt;
  const auto& devices = card->status.usage->devices;
  const auto it = devices.find(deviceUid);
  return it == devices.end() ? v1alpha::DeviceUsage{0, 0} : it->second;
}

}  // namespace

Routing::Routing(cache::Stores& stores, allocator::Allocator& cluster, plugin::Registry& registry, ClassSync& classes,
                 Users& users, Waiting& waiting, Provisioning& provisioning, AmountsSync& amounts, Enqueue enqueue)
    : stores_(stores),
      cluster_(cluster),
      classes_(classes),
      users_(users),
      waiting_(waiting),
      provisioning_(provisioning),
      amounts_(amounts),
      enqueue_(std::move(enqueue)),
      link_(std::make_shared<Link>()) {
  link_->routing = this;
  stores_.claims.listen([this](const auto& b, const auto& a) { onClaim(b, a); });
  stores_.devices.listen([this](const auto& b, const auto& a) { onDevice(b, a); });
  stores_.cards.listen([this](const auto& b, const auto& a) { onCard(b, a); });
  stores_.resourceClaims.listen([this](const auto& b, const auto& a) { onResourceClaim(b, a); });
  stores_.pods.listen([this](const auto& b, const auto& a) { onPod(b, a); });
  stores_.nodes.listen([this](const auto& b, const auto& a) { onNode(b, a); });
  stores_.classes.listen([this](const auto& b, const auto& a) { onClass(b, a); });
  stores_.namespaces.listen([this](const auto& b, const auto& a) { onNamespace(b, a); });
  stores_.templates.listen([this](const auto& b, const auto& a) { onTemplate(b, a); });
  stores_.resourceClaimTemplates.listen(
      [this](const auto& b, const auto& a) { enqueue_(templateKey(core::keyOf((a ? a : b)->metadata))); });
  stores_.podGroups.listen([this](const auto& b, const auto& a) { onPodGroup(b, a); });
  stores_.taintRules.listen([this](const auto& b, const auto& a) { onTaintRule(b, a); });
  stores_.priorityClasses.listen([this](const auto& b, const auto& a) { onPriorityClass(b, a); });
  cluster.onCapacity([this] { capacityChanged(); });
  cluster.onQuota([this](const std::string& namespace_, bool freed) {
    for (const auto& quota : stores_.quotasIn(namespace_)) enqueue_(quotaKey(core::keyOf(quota->metadata)));
    if (freed) capacityChanged();
  });
  stores_.quotas.listen(
      [this](const auto& b, const auto& a) { enqueue_(quotaKey(core::keyOf((a ? a : b)->metadata))); });
  stores_.models.listen([this] {
    stores_.classes.forEach([this](const auto& cls) {
      if (!scheduler::modelsOf(*cls).empty()) enqueue_(classKey(cls->metadata.name));
    });
    stores_.quotas.forEach([this](const auto& quota) {
      if (!quota->spec.models.empty()) enqueue_(quotaKey(core::keyOf(quota->metadata)));
    });
  });
  registry.onChange([link = link_](const std::string& name) {
    const base::MutexLock lock(link->mutex);
    if (link->routing != nullptr) link->routing->onPlugin(name);
  });
  for (const auto& name : registry.names()) recordSource(name);
}

Routing::~Routing() {
  const base::MutexLock lock(link_->mutex);
  link_->routing = nullptr;
}

void Routing::capacityChanged() {
  waiting_.unschedulable.grew(cluster_.releases());
  enqueue_(capacityKey());
}

void Routing::podsOf(const core::ObjectKey& claim) {
  for (const auto& pod : olderFirst(stores_.podsOfClaim(claim))) enqueue_(podKey(core::keyOf(pod->metadata)));
}

void Routing::heldFor(const core::ObjectKey& claim) {
  for (const auto& device : users_.heldFor(claim)) enqueue_(deviceKey(device));
}

void Routing::onClaim(const cache::Claim* before, const cache::Claim* after) {
  if (before && after && cache::onlyUsageDiffers(*before, *after)) return;
  const auto& meta = (after ? after : before)->metadata;
  const auto key = core::keyOf(meta);
  enqueue_(claimKey(key));
  // The claim is gone, being deleted or created again: its device and its ResourceClaim have steps of their own.
  if (!after || meta.deleting() || (before && before->metadata.uid != meta.uid)) {
    for (const auto& device : stores_.devicesOfClaim((before ? before : after)->metadata.uid))
      enqueue_(deviceKey(device->metadata.name));
    enqueue_(resourceClaimKey(key));
  } else if (!before && !madeFor(*after).empty()) {
    enqueue_(resourceClaimKey(key));  // the ResourceClaim that it was made for may be gone
  }
  if (before && (!after || before->metadata.uid != meta.uid)) waiting_.forgetClaim(before->metadata.uid);
  for (const auto* side : {before, after})
    if (side != nullptr && side->status.nominated) victimsOf(*side);
  if (!before || !after || before->status.phase != after->status.phase)
    podsOf(key);
  else if (reasonOf(*before) != reasonOf(*after) && !isDecidedByPod(stores_, *after))
    podsOf(key);  // an event of each pod names the reason
  gangsOf(before, after);
  if (before && !before->metadata.deleting() && (!after || meta.deleting())) plannedWith(key);
}

void Routing::plannedWith(const core::ObjectKey& claim) {
  for (const auto& pod : stores_.podsOfClaim(claim))
    for (const auto& name : v1alpha::claimNames(*pod)) {
      const core::ObjectKey key{claim.namespace_, name};
      // Without this claim the pod's plan is void: another of its claims may plan.
      if (const auto other = stores_.claims.get(key); other && other->status.phase != phase::kBound)
        enqueue_(claimKey(key));
    }
}

void Routing::gangsOf(const cache::Claim* before, const cache::Claim* after) {
  const bool same = before && after && before->metadata.uid == after->metadata.uid &&
                    before->metadata.deleting() == after->metadata.deleting() &&
                    before->status.phase == after->status.phase &&
                    before->status.nominated.has_value() == after->status.nominated.has_value() &&
                    before->metadata.annotations == after->metadata.annotations;
  if (same) return;
  for (const auto* side : {before, after})
    if (side != nullptr) gangOf(*side);
}

void Routing::gangOf(const cache::Claim& claim) {
  const auto gang = gangNamedBy(claim);
  if (!gang) return;
  const auto roster = waiting_.rosters.of(*gang);
  if (!roster || !roster->excludes(claim.metadata.uid)) enqueue_(gangKey(*gang));
}

void Routing::onPodGroup(const core::PodGroup* before, const core::PodGroup* after) {
  if (before && after && before->minCount == after->minCount && before->topology == after->topology)
    return;  // only its status changed
  const auto& meta = (after ? after : before)->metadata;
  enqueue_(gangKey({meta.namespace_, "/" + meta.name}));
  for (const auto& claim : olderFirst(stores_.claimsOfPodGroup(meta.namespace_, meta.name))) {
    enqueue_(claimKey(core::keyOf(claim->metadata)));
    podsOf(core::keyOf(claim->metadata));
  }
}

void Routing::victimsOf(const cache::Claim& claim) {
  for (const auto& name : claim.status.nominated->victims)
    if (const auto device = stores_.devices.get({"", name}); device && device->spec.claimRef)
      enqueue_(claimKey(claimOf(*device->spec.claimRef)));
}

void Routing::onPriorityClass(const core::PriorityClass* before, const core::PriorityClass* after) {
  if (before && after && before->value == after->value && before->globalDefault == after->globalDefault &&
      before->preempts == after->preempts)
    return;
  const auto& name = (after ? after : before)->metadata.name;
  const bool byDefault = (before && before->globalDefault) || (after && after->globalDefault);
  for (const auto& of : {name, std::string()}) {
    if (of.empty() && !byDefault) continue;
    for (const auto& claim : olderFirst(stores_.claimsOfPriority(of))) enqueue_(claimKey(core::keyOf(claim->metadata)));
  }
}

void Routing::onDevice(const cache::Gpu* before, const cache::Gpu* after) {
  const auto& device = after ? *after : *before;
  enqueue_(deviceKey(device.metadata.name));
  for (const auto* side : {before, after}) {
    if (side == nullptr || !side->spec.claimRef) continue;
    enqueue_(claimKey(claimOf(*side->spec.claimRef)));
    if (!before || !after || before->status.reason != after->status.reason) podsOf(claimOf(*side->spec.claimRef));
  }
  if (!before || !after || before->status.phase != after->status.phase || before->spec.claimRef != after->spec.claimRef)
    claimsOfDevice(device);
  // The messages of pending claims mention the device's amounts, and how to get them.
  if (before && after && before->status.phase != after->status.phase && after->status.phase == phase::kAvailable) {
    capacityChanged();
    if (v1alpha::isRemote(*after)) claimsForRemoteDevice(*after);
  }
  const bool leaves = !after || (before && !before->metadata.deleting() && after->metadata.deleting());
  if (leaves && device.spec.claimRef)
    if (const auto claim = stores_.claims.get(claimOf(*device.spec.claimRef))) gangOf(*claim);
  // The device may have left entries and, if it was removed by force without our undo, the plugin's share.
  if (!after)
    for (const auto& card : device.spec.cards) enqueue_(cardKey(card.name));
  if (before && (!after || before->metadata.uid != after->metadata.uid) && !before->spec.provisioner.empty() &&
      !provisioning_.takeUndone(before->metadata.uid))
    enqueue_(pluginKey(before->spec.provisioner));
}

void Routing::claimsUse(const cache::Gpu* before, const cache::Gpu& after) {
  for (const auto& [uid, entry] : after.spec.allocations) {
    if (useOf(before, uid) == useOf(&after, uid)) continue;
    if (const auto slash = entry.claim.find('/'); slash != std::string::npos)
      enqueue_(usageKey({entry.claim.substr(0, slash), entry.claim.substr(slash + 1)}));
  }
}

void Routing::onCard(const cache::Gpu* before, const cache::Gpu* after) {
  const auto& name = (after ? after : before)->metadata.name;
  if (after) claimsUse(before, *after);
  if (before && after && cache::onlyUsageDiffers(*before, *after)) return;
  enqueue_(cardKey(name));
  // A device made by hand that found no capacity has no claim whose step would decide again.
  if (before && after && gaveBack(*before, *after))
    for (const auto& device : stores_.devicesInPhase(phase::kFailed))
      if (std::any_of(device->spec.cards.begin(), device->spec.cards.end(),
                      [&name](const auto& share) { return share.name == name; }))
        enqueue_(deviceKey(device->metadata.name));
  if (before && after && sameHealth(*before, *after) && overdrawn(*before) == overdrawn(*after)) return;
  // The messages of pending claims report why a card is unusable. When it is usable again, Allocator notifies.
  if (before && after && cache::troubleOf(*after)) capacityChanged();
  usersOfCard(name);
}

void Routing::usersOfCard(const std::string& card) {
  for (const auto& device : stores_.devicesOnCard(card)) {
    enqueue_(deviceKey(device->metadata.name));
    claimsOfDevice(*device);
  }
  for (const auto& claim : stores_.claimsNaming(card)) enqueue_(claimKey(core::keyOf(claim->metadata)));
}

void Routing::onTaintRule(const core::DeviceTaintRule* before, const core::DeviceTaintRule* after) {
  const auto spec = [](const core::DeviceTaintRule& rule) {
    return std::tie(rule.selects, rule.driver, rule.pool, rule.device, rule.taint);
  };
  // Only its status changed, in which evictions are counted.
  if (before && after && spec(*before) == spec(*after)) return;
  bool any = false;
  for (const auto* rule : {before, after}) {
    if (rule == nullptr) continue;
    for (const auto& card : stores_.cardsTaintedBy(*rule)) {
      any = true;
      enqueue_(cardKey(card->metadata.name));
      usersOfCard(card->metadata.name);
    }
    if (const auto device = rule->device.empty() ? nullptr : stores_.devices.get({"", rule->device}))
      claimsOfDevice(*device);
  }
  // As with a card's health: pending claims report the taint; when it is gone, Allocator notifies.
  if (any && after) capacityChanged();
}

void Routing::onResourceClaim(const core::ResourceClaim* before, const core::ResourceClaim* after) {
  const auto& resourceClaim = after ? *after : *before;
  const auto key = core::keyOf(resourceClaim.metadata);
  enqueue_(claimKey(key));
  enqueue_(resourceClaimKey(key));
  for (const auto& device : stores_.devicesOfClaim(ResourceClaimBridge::ownerUid(resourceClaim)))
    enqueue_(deviceKey(device->metadata.name));
  if (resourceClaim.allocation && asks(resourceClaim)) enqueue_(deviceKey(resourceClaim.allocation->device));
  heldFor(key);
  podsOf(key);
}

void Routing::onPod(const core::Pod* before, const core::Pod* after) {
  const auto& pod = after ? *after : *before;
  enqueue_(podKey(core::keyOf(pod.metadata)));
  for (const auto& key : amounts_.podChanged(before, after)) enqueue_(templateKey(key));
  std::set<std::string> named;
  for (const auto* side : {before, after}) {
    if (side == nullptr) continue;
    for (auto& claim : v1alpha::claimNames(*side)) named.insert(std::move(claim));
    named.merge(v1alpha::annotatedClaims(*side));
  }
  for (const auto& claim : named) {
    if (claim.empty()) continue;
    enqueue_(claimKey({pod.metadata.namespace_, claim}));
    heldFor({pod.metadata.namespace_, claim});
  }
  waiting_.consumers.podChanged(stores_, core::keyOf(pod.metadata), named);
  const auto counts = [this](const core::Pod* side) {
    if (side == nullptr || !alive(*side)) return side == nullptr ? 0 : 3;
    return 1 + gated(*side) + (isConsumer(stores_, *side) ? 0 : 4);
  };
  if (!pod.podGroupName.empty() && counts(before) != counts(after))
    enqueue_(gangKey({pod.metadata.namespace_, "/" + pod.podGroupName}));
  if (before && after && isConsumer(stores_, *before) != isConsumer(stores_, *after))
    for (const auto& name : named)  // from now on the claim counts in its gang, or no longer does
      if (const auto claim = stores_.claims.get({pod.metadata.namespace_, name})) gangOf(*claim);
  // Claims that were held for this pod on a node that is useless to other pods may move now.
  if (before && alive(*before) && (!after || !alive(*after) || after->metadata.uid != before->metadata.uid))
    for (const auto& claim : v1alpha::claimNames(*before)) {
      const core::ObjectKey key{pod.metadata.namespace_, claim};
      if (!isLeftToPods(key)) podsOf(key);
    }
}

bool Routing::isLeftToPods(const core::ObjectKey& key) const {
  const auto claim = stores_.claims.get(key);
  return claim && stores_.devicesOfClaim(claim->metadata.uid).empty() && isDecidedByPod(stores_, *claim);
}

void Routing::onNode(const core::Node* before, const core::Node* after) {
  const auto& name = (after ? after : before)->metadata.name;
  if (before && after && before->metadata.labels == after->metadata.labels && before->taints == after->taints &&
      before->ready == after->ready && before->unschedulable == after->unschedulable &&
      before->cpuMilli == after->cpuMilli && before->memoryBytes == after->memoryBytes &&
      before->ephemeralBytes == after->ephemeralBytes && before->maxPods == after->maxPods)
    return;  // a heartbeat
  enqueue_(nodeKey(name));
}

void Routing::openClaimsOf(const cache::Class& cls, std::string_view namespace_) {
  const auto each = [&](const auto& claims) {
    for (const auto& claim : olderFirst(claims))
      if (namespace_.empty() || claim->metadata.namespace_ == namespace_)
        enqueue_(claimKey(core::keyOf(claim->metadata)));
  };
  each(stores_.openClaimsOfClass(cls.metadata.name));
  if (ClassSync::isDefault(cls)) each(stores_.openClaimsOfClass(""));
  // A claim that names a device follows the device's class, whatever class the claim names.
  for (const auto& device : stores_.devicesInPhase(phase::kAvailable))
    if (device->spec.className == cls.metadata.name) claimsOfDevice(*device);
}

void Routing::onClass(const cache::Class* before, const cache::Class* after) {
  const auto& cls = after ? *after : *before;
  enqueue_(classKey(cls.metadata.name));
  if (before && (!after || after->metadata.uid != before->metadata.uid)) classes_.forget(before->metadata.uid);
  const bool defaultChanged = before && after && ClassSync::isDefault(*before) != ClassSync::isDefault(*after);
  // If only our Ready condition changed, it matters to claims that waited for it.
  const bool own = before && after && before->conditions != after->conditions && !defaultChanged &&
                   before->allowedNamespaces == after->allowedNamespaces && before->tolerations == after->tolerations;
  const auto* was = own ? findCondition(before->conditions, kReady) : nullptr;
  if (own && (was == nullptr || was->status == "True")) return;
  openClaimsOf(cls);
  if (defaultChanged) openClaimsOf(*before);
}

void Routing::claimsOfDevice(const cache::Gpu& device) {
  for (const auto& claim : stores_.claimsNaming(device.metadata.name)) enqueue_(claimKey(core::keyOf(claim->metadata)));
  if (device.spec.claimRef) enqueue_(claimKey(claimOf(*device.spec.claimRef)));
}

void Routing::onNamespace(const core::Namespace* before, const core::Namespace* after) {
  // Includes new namespaces: claims and namespaces come by different watches. Nothing is decided before the first
  // lists.
  if (!after || !stores_.namespaces.synced()) return;
  if (before && (before->phase != after->phase || before->metadata.deleting() != after->metadata.deleting()))
    podsIn(after->metadata.name);
  if (before && before->metadata.labels == after->metadata.labels) return;
  const bool grantsAdminAccess = hasAdminAccess(after->metadata) && (!before || !hasAdminAccess(before->metadata));
  stores_.classes.forEach([&](const auto& cls) {
    if (cls->allowedNamespaces || grantsAdminAccess) openClaimsOf(*cls, after->metadata.name);
  });
}

void Routing::podsIn(const std::string& namespace_) {
  stores_.pods.forEach([&](const auto& pod) {
    if (pod->metadata.namespace_ != namespace_ || !pod->nodeName.empty()) return;
    enqueue_(podKey(core::keyOf(pod->metadata)));
    for (const auto& name : v1alpha::claimNames(*pod)) enqueue_(claimKey({namespace_, name}));
  });
}

void Routing::onTemplate(const cache::ClaimTemplate* before, const cache::ClaimTemplate* after) {
  const auto key = core::keyOf((after ? after : before)->metadata);
  enqueue_(templateKey(key));
  if (before && after && before->conditions == after->conditions) return;
  for (const auto& pod : stores_.gatedPods()) {  // the obstacle that these pods wait for has changed
    if (pod->metadata.namespace_ != key.namespace_) continue;
    const auto pending = v1alpha::pendingClaim(*pod);
    if (pending && pending->templateName == key.name) enqueue_(podKey(core::keyOf(pod->metadata)));
  }
}

void Routing::recordSource(const std::string& plugin) {
  if (const auto* loaded = provisioning_.find(plugin, nullptr))
    stores_.remoteProvisioners.set(plugin, loaded->description().source == v1alpha::kRemoteSource);
}

void Routing::claimsForRemoteDevice(const cache::Gpu& device) {
  const auto cls = stores_.classes.get({"", device.spec.className});
  if (!cls) return;
  // A refusal may have been that the class has no pool and no usable device.
  waiting_.provisioners.pluginChanged(cls->provisioner);
  openClaimsOf(*cls);
}

void Routing::onPlugin(const std::string& name) {
  recordSource(name);
  classes_.pluginChanged(name);
  provisioning_.pluginChanged(name);
  waiting_.provisioners.pluginChanged(name);
  enqueue_(pluginKey(name));
  stores_.classes.forEach([&](const auto& cls) {
    if (cls->provisioner != name) return;
    enqueue_(classKey(cls->metadata.name));
    openClaimsOf(*cls);
  });
  for (const auto& device : stores_.devicesToUndo(name)) enqueue_(deviceKey(device->metadata.name));
}

}  // namespace egpu::reconcile
