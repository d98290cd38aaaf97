#include "controller/allocator/nominator.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/base/timestamp.h"
#include "controller/scheduler/quota/parts_on.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::allocator {

std::vector<std::string> takeNominated(scheduler::Cluster& cluster, const std::string& key,
                                       const NominatedClaim& nominated) {
  std::vector<std::string> taken;
  for (const auto& card : nominated.nomination.cards) {
    const auto now = cluster.findCard(card.name);
    const auto isolation = cluster.isolationOn(card.name, nominated.isolation);
    const bool isBlocked = now.claims > 0 && now.isolation != isolation;
    const auto wanted = isBlocked ? now.capacity : scheduler::Amount{card.core, card.memory};
    const auto amount = scheduler::freeUpTo(cluster, card.name, wanted);
    if (amount.core == 0 && amount.memory == 0) continue;
    if (cluster.take(card.name, key, amount, {}, isolation)) taken.push_back(card.name);
  }
  return taken;
}

int64_t Nominator::sinceOf(const cache::Claim& claim) const {
  int64_t since = base::unixSeconds(claim.metadata.creationTimestamp);
  const auto beside = [&since](const cache::Claim& other) {
    since = std::min(since, base::unixSeconds(other.metadata.creationTimestamp));
  };
  const auto gang = claim.metadata.annotation(v1alpha::keys::kGangAnnotation);
  if (!gang.empty())
    for (const auto& member : stores_.claimsOfGang(claim.metadata.namespace_, gang)) beside(*member);
  const auto group = claim.metadata.annotation(v1alpha::keys::kGangPodGroupAnnotation);
  if (!group.empty())
    for (const auto& member : stores_.claimsOfPodGroup(claim.metadata.namespace_, group)) beside(*member);
  for (const auto& pod : stores_.podsOfClaim(core::keyOf(claim.metadata)))
    for (const auto& name : v1alpha::claimNames(*pod))
      if (const auto other = stores_.claims.get({claim.metadata.namespace_, name})) beside(*other);
  return since;
}

void Nominator::refresh(const cache::Claim& claim, bool isGone) {
  const auto& uid = claim.metadata.uid;
  const auto now = stores_.claims.get(core::keyOf(claim.metadata));  // the caller's object may be outdated
  const bool isNominated = !isGone && now && now->metadata.uid == uid && now->status.nominated &&
                           !now->metadata.deleting() && now->status.phase != v1alpha::keys::phase::kBound;
  const auto known = nominated_.find(uid);
  if (isNominated) {
    const auto& className = now->status.className.empty() ? now->spec.className : now->status.className;
    const auto cls = stores_.classes.get({"", className});
    NominatedClaim fresh{{core::keyOf(now->metadata).str(), now->status.priority, sinceOf(*now), nullptr},
                         *now->status.nominated,
                         className,
                         cls ? scheduler::isolationOf(*cls) : std::string()};
    if (known != nominated_.end() && !(known->second.nomination == fresh.nomination)) {
      hasFreed_ = true;
      quotas_.noteFreed(now->metadata.namespace_);
    }
    nominated_[uid] = std::move(fresh);
  } else if (known != nominated_.end()) {
    nominated_.erase(known);
    hasFreed_ = true;
    quotas_.noteFreed(claim.metadata.namespace_);
  }
}

const NominatedClaim* Nominator::find(std::string_view claimUid) const {
  const auto known = nominated_.find(claimUid);
  return known == nominated_.end() ? nullptr : &known->second;
}

bool Nominator::blocks(const std::vector<SchedulingRequest>& asks, const std::string& ownerUid,
                       const NominatedClaim& nominated) const {
  return !state_.isPlaced(ownerUid) && std::all_of(asks.begin(), asks.end(), [&](const SchedulingRequest& ask) {
    return precedes(ownerUid, nominated, ask);
  });
}

bool Nominator::precedes(const std::string& ownerUid, const NominatedClaim& nominated,
                         const SchedulingRequest& ask) const {
  const auto& owner = nominated.owner;
  if (ask.claimUid == ownerUid || ask.order.priority > owner.priority) return false;
  if (ask.order.priority < owner.priority || !nominated_.contains(ask.claimUid)) return true;
  return scheduler::queueLess(owner, pendingRequestOf(ask));
}

bool Nominator::hasBefore(const SchedulingRequest& ask) const {
  return std::any_of(nominated_.begin(), nominated_.end(),
                     [&](const auto& each) { return precedes(each.first, each.second, ask); });
}

bool Nominator::isNominated(std::string_view card, std::string_view node) const {
  return std::any_of(nominated_.begin(), nominated_.end(), [&](const auto& each) {
    const auto& nomination = each.second.nomination;
    return nomination.nodeName == node && std::any_of(nomination.cards.begin(), nomination.cards.end(),
                                                      [&](const auto& nominated) { return nominated.name == card; });
  });
}

std::vector<std::string> Nominator::filledNodes(const std::vector<SchedulingRequest>& asks) const {
  std::vector<std::string> filled;
  const auto takesNothing = [](const SchedulingRequest& ask) {
    return ask.request.adminAccess || ask.request.cards == 0;
  };
  if (nominated_.empty() || std::any_of(asks.begin(), asks.end(), takesNothing)) return filled;
  std::map<std::string, scheduler::CardAmounts> nominatedOn;
  eachBlocking(asks, [&nominatedOn](const std::string&, const NominatedClaim& nominated) {
    auto& amounts = nominatedOn[nominated.nomination.nodeName];
    for (const auto& card : nominated.nomination.cards) {
      auto& amount = amounts[card.name];
      amount = {amount.core + card.core, amount.memory + card.memory};
    }
  });
  for (const auto& [node, amounts] : nominatedOn)
    if (!scheduler::hasFreeBeside(state_.cluster(), node, amounts)) filled.push_back(node);
  return filled;
}

Nominator::Hold Nominator::hold(const std::vector<SchedulingRequest>& asks, const std::vector<std::string>& filled) {
  Hold held;
  if (!quotas_.empty()) quotas_.hold(quotaHolds(asks, false));
  if (nominated_.empty()) return held;
  scheduler::Cluster& cluster =
      state_.cluster();  // no listener is notified: release() comes before the next notification
  eachBlocking(asks, [&](const std::string& uid, const NominatedClaim& nominated) {
    if (std::binary_search(filled.begin(), filled.end(), nominated.nomination.nodeName)) return;
    const auto key = nominatedKey(uid);
    for (auto& card : takeNominated(cluster, key, nominated)) held.emplace_back(std::move(card), key);
  });
  return held;
}

void Nominator::release(const Hold& held) {
  scheduler::Cluster& cluster = state_.cluster();
  quotas_.hold({});
  for (const auto& [card, uid] : held) cluster.giveBack(card, uid);
}

std::vector<scheduler::QuotaHold> Nominator::quotaHolds(const std::vector<SchedulingRequest>& asks,
                                                        bool victimsGone) const {
  std::vector<scheduler::QuotaHold> holds;
  const auto namespace_ = asks.empty() ? std::string() : namespaceOf(asks.front().claim);
  if (!quotas_.counts(namespace_)) return holds;
  eachBlocking(asks, [&](const std::string& uid, const NominatedClaim& nominated) {
    if (namespaceOf(nominated.owner.name) != namespace_) return;
    auto& hold = holds.emplace_back();
    hold.owner.claim = {namespace_, nominated.owner.name, uid, nominated.className};
    for (const auto& each : nominated.nomination.cards)
      hold.owner.parts.push_back(
          scheduler::quotaPartOf(state_.cluster().findCard(each.name), {each.core, each.memory, {}}));
    if (!victimsGone) hold.victims = state_.uidsOf(nominated.nomination.victims);
  });
  for (auto& asked : quotas_.reservedBefore(namespace_, asks))
    if (!nominated_.contains(asked.claim.id)) holds.push_back({std::move(asked), {}});
  return holds;
}

scheduler::QuotaBook Nominator::quotasAfter(const std::vector<SchedulingRequest>& asks) const {
  const auto namespace_ = asks.empty() ? std::string() : namespaceOf(asks.front().claim);
  if (!quotas_.counts(namespace_)) return {};
  state_.countForQuotas();
  auto book = quotas_.book().of(namespace_);
  eachBlocking(asks, [&](const std::string&, const NominatedClaim& nominated) {
    if (namespaceOf(nominated.owner.name) != namespace_) return;
    for (const auto& victim : state_.uidsOf(nominated.nomination.victims)) book.drop(victim);
  });
  book.hold(quotaHolds(asks, true));
  return book;
}

std::vector<scheduler::GangMember> Nominator::pinToNominated(const std::vector<SchedulingRequest>& asks,
                                                             std::vector<scheduler::GangMember> members) const {
  for (std::size_t i = 0; i < asks.size(); ++i) {
    const auto* const own = find(asks[i].claimUid);
    if (own == nullptr) return {};
    auto& pinned = members[i].request.pinnedNode;
    if (!pinned.empty() && pinned != own->nomination.nodeName) return {};
    pinned = own->nomination.nodeName;
  }
  return members;
}

}  // namespace egpu::allocator
