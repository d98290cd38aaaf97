#include "controller/reconcile/gang/membership.h"

#include <algorithm>
#include <tuple>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_amounts.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/pod/demand.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/resourceclaim/adopter.h"
#include "controller/reconcile/retry/unschedulable_queue.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;

namespace {

bool namesGang(const core::StringMap& annotations) { return annotations.contains(std::string(keys::kGangAnnotation)); }

std::string_view groupOf(const cache::Claim& claim) { return claim.metadata.annotation(keys::kGangPodGroupAnnotation); }

/// True if the claim of that name exists and is not being deleted, or is another driver's.
bool isMade(const cache::Stores& stores, const core::ObjectKey& key) {
  const auto claim = stores.claims.get(key);
  if (claim) return !claim->metadata.deleting();
  const auto resourceClaim = stores.resourceClaims.get(key);
  return resourceClaim && !asks(*resourceClaim) &&
         resourceClaim->deviceClassName != keys::kDeviceClass;  // it belongs to another driver
}

}  // namespace

std::optional<v1alpha::Gang> gangOf(const cache::Stores& stores, const cache::Claim& claim) {
  const auto name = groupOf(claim);
  if (name.empty() || namesGang(claim.metadata.annotations)) return v1alpha::gangOf(claim.metadata.annotations);
  if (v1alpha::gangMistake(claim.metadata.annotations)) return std::nullopt;
  const auto group = stores.podGroups.get({claim.metadata.namespace_, std::string(name)});
  return group ? v1alpha::gangOf(*group) : std::nullopt;
}

bool inGang(const cache::Stores& stores, const cache::Claim& claim) {
  if (namesGang(claim.metadata.annotations)) return true;
  const auto name = groupOf(claim);
  if (name.empty() || !stores.podGroupsServed) return false;
  const auto group = stores.podGroups.get({claim.metadata.namespace_, std::string(name)});
  return !group || v1alpha::gangOf(*group);
}

core::ObjectKey gangIdOf(const std::string& namespace_, const v1alpha::Gang& gang) {
  return {namespace_, (gang.podGroup ? "/" : "") + gang.name};
}

std::optional<core::ObjectKey> gangNamedBy(const cache::Claim& claim) {
  const auto& meta = claim.metadata;
  if (groupOf(claim).empty() && !namesGang(meta.annotations)) return std::nullopt;  // nearly all claims
  if (v1alpha::gangMistake(meta.annotations)) return std::nullopt;
  if (namesGang(meta.annotations))
    return core::ObjectKey{meta.namespace_, std::string(meta.annotation(keys::kGangAnnotation))};
  return core::ObjectKey{meta.namespace_, std::string("/").append(groupOf(claim))};
}

GroupPod groupPodOf(const cache::Stores& stores, const cache::Store<core::Pod>::Ptr& pod, std::string_view group) {
  const bool succeeded = pod->phase == "Succeeded";
  GroupPod one{pod, {}, succeeded || !gated(*pod), succeeded || !v1alpha::pendingClaim(*pod)};
  for (const auto& name : succeeded ? std::vector<std::string>() : usedOrAnnotated(*pod)) {
    const core::ObjectKey key{pod->metadata.namespace_, name};
    const auto claim = stores.claims.get(key);
    if (!one.ungated && !isMade(stores, key)) one.whole = false;
    if (claim && !claim->metadata.deleting() && groupOf(*claim) == group) one.claims.push_back(claim);
  }
  return one;
}

std::vector<GroupPod> podsOfGroup(const cache::Stores& stores, const std::string& namespace_, const std::string& group,
                                  const std::function<bool(const cache::Claim&)>& holds) {
  using MemberOrder = std::tuple<bool, bool, Age>;
  std::vector<std::pair<MemberOrder, GroupPod>> counted;
  for (const auto& pod : stores.podsOfPodGroup(namespace_, group)) {
    const bool succeeded = pod->phase == "Succeeded";
    if (!succeeded && !alive(*pod)) continue;
    auto one = groupPodOf(stores, pod, group);
    const bool held =
        std::any_of(one.claims.begin(), one.claims.end(), [&holds](const auto& claim) { return holds(*claim); });
    // A pod that may not be scheduled counts only if it holds something already.
    if (!succeeded && !held && !isUser(stores, *pod)) continue;
    counted.emplace_back(MemberOrder{!one.ungated, !held, ageOf(pod->metadata)}, std::move(one));
  }
  std::sort(counted.begin(), counted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<GroupPod> pods;
  pods.reserve(counted.size());
  for (auto& each : counted) pods.push_back(std::move(each.second));
  return pods;
}

std::size_t succeededMembers(const cache::Stores& stores, const std::string& namespace_, const v1alpha::Gang& gang) {
  std::size_t count = 0;
  for (const auto& pod : stores.succeededPods(namespace_))
    for (const auto& entry : v1alpha::podClaims(*pod)) {
      if (entry.state == v1alpha::PodClaimState::named) continue;  // the claim was not made for the pod and outlives it
      const auto of = stores.resourceClaimTemplates.get({namespace_, entry.templateName});
      if (of ? !asks(of->claim) : !v1alpha::namesAmounts(entry.templateName)) continue;
      const bool annotated = of && namesGang(of->annotations);
      if (v1alpha::gangOf(annotated ? of->annotations : pod->metadata.annotations) != gang) continue;
      const auto claim = entry.claim.empty() ? nullptr : stores.claims.get({namespace_, entry.claim});
      count += claim && !claim->metadata.deleting() ? 0 : 1;
    }
  return count;
}

}  // namespace egpu::reconcile
