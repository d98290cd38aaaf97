#include "controller/cache/stores.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"

namespace egpu::cache {

namespace phase = v1alpha::keys::phase;

namespace keys = v1alpha::keys;

Trouble troubleOf(const Gpu& card) {
  if (card.metadata.deleting()) return {"being deleted", {}};
  if (card.status.phase == phase::kFailed)
    return {card.status.reason.empty() ? "Failed" : card.status.reason, card.status.message};
  for (const auto& condition : card.status.conditions)
    if (condition.type == "Healthy" && condition.status == "False")
      return {condition.reason.empty() ? "unhealthy" : condition.reason, condition.message};
  return {};
}

bool repels(const core::DeviceTaintRule& rule, std::string_view node, std::string_view device) {
  const auto fits = [](const std::string& wanted, std::string_view is) { return wanted.empty() || wanted == is; };
  return rule.selects && (rule.taint.effect == "NoSchedule" || rule.taint.effect == "NoExecute") &&
         fits(rule.driver, keys::kDriver) && fits(rule.pool, node) && fits(rule.device, device);
}

namespace {

/// Begin of the values under which the pods of a claim are found. No other claim's values begin so: names contain no
/// slash.
std::string podsPrefix(const core::ObjectKey& claim) { return claim.str() + "/"; }

/// Text whose order is the reverse of that of the numbers.
std::string descending(int64_t number) {
  const auto ascending = static_cast<uint64_t>(number) ^ (uint64_t{1} << 63);
  auto text = std::to_string(~ascending);
  return std::string(20 - text.size(), '0') + text;
}

template <class T>
bool differInUsage(const T& before, const T& after) {
  if (before.status.usage == after.status.usage || !(before.spec == after.spec)) return false;
  auto meta = after.metadata;
  auto status = after.status;
  meta.resourceVersion = before.metadata.resourceVersion;
  status.usage = before.status.usage;
  return meta == before.metadata && status == before.status;
}

std::string textOf(const core::DeviceTaintRule& rule) {
  const auto& taint = rule.taint;
  return "DeviceTaintRule " + rule.metadata.name + ": " + taint.key + (taint.value.empty() ? "" : "=" + taint.value) +
         ":" + taint.effect;
}

/// True if a device of this name was made for the claim of this uid.
bool isNamedAfter(std::string_view device, std::string_view claimUid) {
  return device.starts_with(keys::kDevicePrefix) && device.substr(keys::kDevicePrefix.size()) == claimUid;
}

constexpr auto kGang = v1alpha::keys::kGangAnnotation;  ///< also the prefix of the other gang annotations

}  // namespace

bool onlyUsageDiffers(const Gpu& before, const Gpu& after) { return differInUsage(before, after); }
bool onlyUsageDiffers(const Claim& before, const Claim& after) { return differInUsage(before, after); }

bool isStored(const core::Pod& pod) {
  return v1alpha::hasPodClaims(pod) || !pod.podGroupName.empty() || !v1alpha::annotatedClaims(pod).empty();
}

Stores::Stores() {
  claims.leaveOut([](Claim& c) {
    c.metadata.labels = {};
    core::StringMap read;
    for (const auto& [key, value] : c.metadata.annotations)
      if (key == keys::kNodePolicyAnnotation || key == keys::kCardPolicyAnnotation || key == keys::kMoveAnnotation ||
          key.starts_with(kGang))
        read[key] = value;
    c.metadata.annotations = std::move(read);
  });
  for (auto* gpus : {&cards, &devices})
    gpus->leaveOut([](Gpu& g) {
      g.metadata.labels = {};
      using Kind = v1alpha::SourceKind;
      auto& source = g.spec.source;
      const bool instances = source && source->kind == Kind::mig;  // their number is in the capacity
      if ((g.isCard() || !g.spec.cards.empty()) && !instances) g.spec.capacity = {};
      // The names of cards are in spec.cards, too. The kind matters for whole cards.
      if (source && source->kind == Kind::gpuShare) source.reset();
      if (source && source->kind == Kind::physicalGPU) source->gpuNames = {};
      g.spec.nodeAffinityRequired.reset();
      if (g.isDevice()) g.status.allocated.reset();
    });
  taintRules.leaveOut([](core::DeviceTaintRule& r) {
    r.metadata.labels = {};
    r.metadata.annotations = {};
  });
  podGroups.leaveOut([](core::PodGroup& g) {
    g.metadata.labels = {};
    g.metadata.annotations = {};
  });
  indexGpus();
  indexClaims();
  indexPods();
  byQuotaNamespace_ = quotas.addIndex([](const Quota& q, const Emit& emit) { emit(q.metadata.namespace_); });
  byAvoided_ = nodes.addIndex([](const core::Node& n, const Emit& emit) {
    if (std::any_of(n.taints.begin(), n.taints.end(),
                    [](const core::Taint& taint) { return taint.effect == "PreferNoSchedule"; }))
      emit("yes");
  });
}

Stores::~Stores() = default;

void Stores::indexGpus() {
  byClaimUid_ = devices.addIndex([](const Gpu& d, const Emit& emit) {
    const auto& ref = d.spec.claimRef;
    if (ref && !ref->reserves() && !isNamedAfter(d.metadata.name, ref->uid)) emit(ref->uid);
  });
  byReservation_ = devices.addIndex([](const Gpu& d, const Emit& emit) {
    const auto& ref = d.spec.claimRef;
    if (ref && ref->reserves()) emit(ref->namespace_ + "/" + ref->name);
  });
  // Most devices are Bound, and no caller looks them up by that phase.
  byPhase_ = devices.addIndex([](const Gpu& d, const Emit& emit) {
    if (d.status.phase != phase::kBound) emit(d.status.phase);
  });
  byTrouble_ = cards.addIndex([](const Gpu& c, const Emit& emit) {
    if (cache::troubleOf(c)) emit("yes");
  });
  byCard_ = devices.addIndex([](const Gpu& d, const Emit& emit) {
    for (const auto& card : d.spec.cards) emit(card.name);
  });
  byProvisioner_ = devices.addIndex([](const Gpu& d, const Emit& emit) {
    if (d.metadata.deleting()) emit(d.spec.provisioner);
  });
  byPreemptible_ = devices.addIndex([](const Gpu& d, const Emit& emit) {
    const auto preemptible = d.spec.parameters.find("preemptible");
    if (preemptible != d.spec.parameters.end() && preemptible->second == "true" && d.spec.reclaimPolicy == "Delete")
      emit("yes");
  });
  byCardNode_ = cards.addIndex(
      [](const Gpu& c, const Emit& emit) { emit(c.spec.card ? std::string_view(c.spec.card->nodeName) : ""); });
}

void Stores::indexClaims() {
  byGpuName_ = claims.addIndex([](const Claim& c, const Emit& emit) {
    const auto& name = c.spec.elasticGPUName;
    if (!name.empty() && !isNamedAfter(name, c.metadata.uid)) emit(name);
  });
  byClass_ = claims.addIndex([](const Claim& c, const Emit& emit) {
    if (c.status.phase != phase::kBound) emit(c.spec.effectiveClass());
  });
  byVictim_ = claims.addIndex([](const Claim& c, const Emit& emit) {
    if (c.status.phase == phase::kBound || !c.status.nominated || c.metadata.deleting()) return;
    for (const auto& device : c.status.nominated->victims) emit(device);
  });
  byGang_ = claims.addIndex([](const Claim& c, const Emit& emit) {
    const auto gang = c.metadata.annotation(kGang);
    if (!gang.empty()) emit(std::string(c.metadata.namespace_).append("/").append(gang));
    const auto group = c.metadata.annotation(keys::kGangPodGroupAnnotation);  // no gang's name begins with "/"
    if (!group.empty()) emit(std::string(c.metadata.namespace_).append("//").append(group));
  });
  // Claims that are Bound and name no PriorityClass are not looked up.
  byPriorityClass_ = claims.addIndex([](const Claim& c, const Emit& emit) {
    if (!c.spec.priorityClassName.empty() || c.status.phase != phase::kBound) emit(c.spec.priorityClassName);
  });
}

void Stores::indexPods() {
  byPodClaim_ = pods.addIndex([](const core::Pod& p, const Emit& emit) {
    for (const auto& claim : v1alpha::claimNames(p)) emit(p.metadata.namespace_ + "/" + claim);
  });
  byPodPriority_ = pods.addIndex([](const core::Pod& p, const Emit& emit) {
    for (const auto& claim : v1alpha::claimNames(p))
      emit(podsPrefix({p.metadata.namespace_, claim}) + descending(p.priority));
  });
  byPodAge_ = pods.addIndex([](const core::Pod& p, const Emit& emit) {
    for (const auto& claim : v1alpha::claimNames(p))
      emit(podsPrefix({p.metadata.namespace_, claim}) + p.metadata.creationTimestamp + "/" + p.metadata.uid);
  });
  byGate_ = pods.addIndex([](const core::Pod& p, const Emit& emit) {
    if (std::find(p.schedulingGates.begin(), p.schedulingGates.end(), keys::kSchedulingGate) != p.schedulingGates.end())
      emit("gated");
  });
  byPodGroup_ = pods.addIndex([](const core::Pod& p, const Emit& emit) {
    if (!p.podGroupName.empty()) emit(p.metadata.namespace_ + "/" + p.podGroupName);
  });
  bySucceeded_ = pods.addIndex([](const core::Pod& p, const Emit& emit) {
    if (p.phase == "Succeeded") emit(p.metadata.namespace_);
  });
  byPodAnnotation_ = pods.addIndex([](const core::Pod& p, const Emit& emit) {
    for (const auto& claim : v1alpha::onlyAnnotatedClaims(p)) emit(p.metadata.namespace_ + "/" + claim);
  });
}

Store<core::Pod>::Ptr Stores::firstPodByPriority(const core::ObjectKey& claim,
                                                 const std::function<bool(const core::Pod&)>& accepts) const {
  return pods.first(byPodPriority_, podsPrefix(claim), accepts);
}

Store<core::Pod>::Ptr Stores::firstPodByAge(const core::ObjectKey& claim,
                                            const std::function<bool(const core::Pod&)>& accepts) const {
  return pods.first(byPodAge_, podsPrefix(claim), accepts);
}

std::vector<Store<Gpu>::Ptr> Stores::devicesOfClaim(std::string_view claimUid) const {
  auto found = devices.find(byClaimUid_, claimUid);
  if (auto own = devices.get({"", std::string(keys::kDevicePrefix).append(claimUid)});
      own && own->spec.claimRef && own->spec.claimRef->uid == claimUid)
    found.push_back(std::move(own));
  return found;
}

Trouble Stores::taintOn(std::string_view node, std::string_view gpu) const {
  Trouble found;
  taintRules.forEach([&](const auto& rule) {
    if (!found && repels(*rule, node, gpu)) found = {std::string(keys::reason::kTainted), textOf(*rule)};
  });
  return found;
}

Trouble Stores::troubleOf(const Gpu& card) const {
  auto trouble = cache::troubleOf(card);
  return trouble || !card.spec.card ? trouble : taintOn(card.spec.card->nodeName, card.metadata.name);
}

std::vector<Store<Gpu>::Ptr> Stores::cardsTaintedBy(const core::DeviceTaintRule& rule) const {
  std::vector<Store<Gpu>::Ptr> found;
  const auto check = [&](const Store<Gpu>::Ptr& card) {
    if (card && card->spec.card && repels(rule, card->spec.card->nodeName, card->metadata.name)) found.push_back(card);
  };
  if (!rule.device.empty())
    check(cards.get({"", rule.device}));
  else if (!rule.pool.empty())
    for (const auto& card : cardsOnNode(rule.pool)) check(card);
  else
    cards.forEach(check);
  return found;
}

std::vector<Store<Gpu>::Ptr> Stores::cardsInTrouble() const {
  auto all = cards.find(byTrouble_, "yes");
  const auto ill = all.size();
  taintRules.forEach([&](const auto& rule) {
    const auto more = cardsTaintedBy(*rule);
    all.insert(all.end(), more.begin(), more.end());
  });
  if (all.size() == ill) return all;
  const auto name = [](const auto& card) -> const std::string& { return card->metadata.name; };
  std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return name(a) < name(b); });
  all.erase(std::unique(all.begin(), all.end(), [&](const auto& a, const auto& b) { return name(a) == name(b); }),
            all.end());
  return all;
}

Store<Gpu>::Ptr Stores::gpu(std::string_view name) const {
  const core::ObjectKey key{"", std::string(name)};
  if (auto card = cards.get(key)) return card;
  return devices.get(key);
}

bool Stores::synced() const {
  return cards.synced() && devices.synced() && claims.synced() && classes.synced() && pods.synced() && nodes.synced() &&
         resourceClaims.synced() && namespaces.synced() && quotas.synced() && templates.synced() &&
         resourceClaimTemplates.synced() && priorityClasses.synced();
}

template <>
void Stores::observed(const core::Pod& pod) {
  usage.seen(pod);
  if (isStored(pod) || pods.get(core::keyOf(pod.metadata))) pods.observed(pod);
}

}  // namespace egpu::cache
