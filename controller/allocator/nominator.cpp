// Nominations and node reservations in ClusterView: which requests they block, and how decisions leave them free.
#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/allocator/allocator.h"
#include "controller/base/timestamp.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::cache {

namespace phase = v1alpha::keys::phase;

std::string ClusterView::nominatedKey(std::string_view claimUid) { return std::string(kNominated).append(claimUid); }

int64_t ClusterView::sinceOf(const Claim& claim) const {
  int64_t since = base::unixSeconds(claim.metadata.creationTimestamp);
  const auto beside = [&since](const Claim& other) {
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

void ClusterView::refreshNomination(const Claim& claim, bool gone) {
  const auto& uid = claim.metadata.uid;
  {
    const std::lock_guard lock(mutex_);
    const auto now = stores_.claims.get(core::keyOf(claim.metadata));  // the caller's object may be outdated
    const bool stands = !gone && now && now->metadata.uid == uid && now->status.nominated &&
                        !now->metadata.deleting() && now->status.phase != phase::kBound;
    const auto known = nominated_.find(uid);
    if (stands) {
      const auto& className = now->status.className.empty() ? now->spec.className : now->status.className;
      Nominated fresh{{core::keyOf(now->metadata).str(), now->status.priority, sinceOf(*now), nullptr},
                      *now->status.nominated,
                      className};
      if (known != nominated_.end() && !(known->second.room == fresh.room)) {
        capacityFreed_ = true;
        book_.noteFreed(now->metadata.namespace_);
      }
      nominated_[uid] = std::move(fresh);
    } else if (known != nominated_.end()) {
      nominated_.erase(known);
      capacityFreed_ = true;
      book_.noteFreed(claim.metadata.namespace_);
    }
  }
  announce();
}

scheduler::PendingRequest ClusterView::waiterOf(const SchedulingRequest& ask) {
  return {ask.claim, ask.turn.priority, ask.turn.since, &ask.request};
}

/// True if the claim has its capacity, or is about to have it: it needs no reservation or nomination.
bool ClusterView::isPlaced(const std::string& claimUid) const {
  return assumptions_.contains(claimUid) || !stores_.devicesOfClaim(claimUid).empty();
}

bool ClusterView::reservationBlocks(const std::vector<SchedulingRequest>& asks, const std::string& ownerUid,
                                    const NodeReservation& kept) const {
  const auto adminAccess = [](const SchedulingRequest& ask) { return ask.request.adminAccess; };  // takes no capacity
  if (std::all_of(asks.begin(), asks.end(), adminAccess)) return false;
  return !isPlaced(ownerUid) && std::all_of(asks.begin(), asks.end(), [&](const SchedulingRequest& ask) {
    return adminAccess(ask) || (ask.claimUid != ownerUid && scheduler::queueLess(kept.owner, waiterOf(ask)));
  }) && !withholdsTooMuch(kept);
}

/// A nomination blocks requests of lower priority, and requests of equal priority, even older ones, unless they have a
/// nomination of their own; then queue order decides.
bool ClusterView::roomIsKeptFrom(const std::vector<SchedulingRequest>& asks, const std::string& ownerUid,
                                 const Nominated& nominated) const {
  const auto& owner = nominated.owner;
  return !isPlaced(ownerUid) && std::all_of(asks.begin(), asks.end(), [&](const SchedulingRequest& ask) {
    if (ask.claimUid == ownerUid || ask.turn.priority > owner.priority) return false;
    if (ask.turn.priority < owner.priority || !nominated_.contains(ask.claimUid)) return true;
    return scheduler::queueLess(owner, waiterOf(ask));
  });
}

std::vector<std::string> ClusterView::filledNodes(const std::vector<SchedulingRequest>& asks) const {
  std::vector<std::string> filled;
  const auto takesNothing = [](const SchedulingRequest& ask) {
    return ask.request.adminAccess || ask.request.cards == 0;
  };
  if (nominated_.empty() || std::any_of(asks.begin(), asks.end(), takesNothing)) return filled;
  std::map<std::string, scheduler::CardAmounts> kept;
  for (const auto& [uid, nominated] : nominated_) {
    if (!roomIsKeptFrom(asks, uid, nominated)) continue;
    auto& amounts = kept[nominated.room.nodeName];
    for (const auto& card : nominated.room.cards) {
      auto& amount = amounts[card.name];
      amount = {amount.core + card.core, amount.memory + card.memory};
    }
  }
  for (const auto& [node, amounts] : kept)
    if (!scheduler::hasFreeBeside(cluster_, node, amounts)) filled.push_back(node);
  return filled;
}

ClusterView::NominatedCapacityHold ClusterView::reserveNominatedCapacity(const std::vector<SchedulingRequest>& asks,
                                                                         const std::vector<std::string>& filled) {
  NominatedCapacityHold taken;
  if (!book_.empty()) book_.hold(quotaHolds(asks, false));
  if (nominated_.empty()) return taken;
  scheduler::Cluster& cluster = cluster_;  // without notification: released before the next notification
  for (const auto& [uid, nominated] : nominated_) {
    if (std::binary_search(filled.begin(), filled.end(), nominated.room.nodeName)) continue;
    if (!roomIsKeptFrom(asks, uid, nominated)) continue;
    for (const auto& card : nominated.room.cards) {
      const auto amount = scheduler::freeUpTo(cluster, card.name, {card.core, card.memory});
      if (amount.core == 0 && amount.memory == 0) continue;
      auto key = nominatedKey(uid);
      if (cluster.take(card.name, key, amount)) taken.emplace_back(card.name, std::move(key));
    }
  }
  return taken;
}

void ClusterView::releaseNominatedCapacity(const NominatedCapacityHold& taken) {
  scheduler::Cluster& cluster = cluster_;
  book_.hold({});
  for (const auto& [card, uid] : taken) cluster.giveBack(card, uid);
}

const scheduler::NodePredicate& ClusterView::openNodes(const std::vector<SchedulingRequest>& asks,
                                                       const scheduler::NodePredicate& suits,
                                                       scheduler::NodePredicate& open) const {
  if (std::none_of(reservations_.begin(), reservations_.end(),
                   [&](const auto& kept) { return reservationBlocks(asks, kept.first, kept.second); }))
    return suits;
  open = [this, &asks, &suits](std::string_view node) {
    for (const auto& [uid, kept] : reservations_)
      if (kept.node == node && reservationBlocks(asks, uid, kept)) return false;
    return !suits || suits(node);
  };
  return open;
}

void ClusterView::filterReservedNodes(const std::vector<SchedulingRequest>& asks,
                                      std::span<const std::string_view> nodes,
                                      std::vector<scheduler::NodeVerdict>& verdicts) const {
  std::vector<std::string_view> closed;
  for (const auto& [uid, kept] : reservations_)
    if (!asks.empty() && reservationBlocks(asks, uid, kept)) closed.push_back(kept.node);
  if (closed.empty()) return;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (std::find(closed.begin(), closed.end(), nodes[i]) != closed.end()) verdicts[i] = {};
}

std::set<std::string, std::less<>> ClusterView::nodesKeptFrom(const std::vector<SchedulingRequest>& asks) const {
  std::set<std::string, std::less<>> nodes;
  const std::lock_guard lock(mutex_);
  for (const auto& [uid, nominated] : nominated_)
    if (roomIsKeptFrom(asks, uid, nominated)) nodes.insert(nominated.room.nodeName);
  for (const auto& [uid, kept] : reservations_)
    if (reservationBlocks(asks, uid, kept)) nodes.insert(kept.node);
  return nodes;
}

std::set<std::string, std::less<>> ClusterView::nodesKeptForOthers(std::string_view claim) const {
  std::set<std::string, std::less<>> nodes;
  const std::lock_guard lock(mutex_);
  for (const auto& [uid, nominated] : nominated_)
    if (nominated.owner.name != claim && !isPlaced(uid)) nodes.insert(nominated.room.nodeName);
  for (const auto& [uid, kept] : reservations_)
    if (kept.owner.name != claim && !isPlaced(uid) && !withholdsTooMuch(kept)) nodes.insert(kept.node);
  return nodes;
}

std::string ClusterView::keptFrom(const SchedulingRequest& ask) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  const std::string own = ask.claim.substr(0, ask.claim.find('/') + 1);
  const auto add = [&](const scheduler::PendingRequest& owner, const std::string& node) {
    // Users may not be allowed to read other namespaces.
    text += (text.empty() ? "capacity reserved for other claims: node " : ", node ") + node +
            (owner.name.starts_with(own) ? " (claim " + owner.name + ")" : " (a claim of another namespace)");
  };
  for (const auto& [uid, nominated] : nominated_)
    if (roomIsKeptFrom({ask}, uid, nominated)) add(nominated.owner, nominated.room.nodeName);
  for (const auto& [uid, kept] : reservations_)
    if (reservationBlocks({ask}, uid, kept)) add(kept.owner, kept.node);
  return text;
}

scheduler::Decision ClusterView::decideHere(const SchedulingRequest& ask, const scheduler::NodePredicate& suits) {
  const auto own = nominated_.find(ask.claimUid);
  if (own != nominated_.end()) {
    auto here = ask.request;
    const bool elsewhere = !here.pinnedNode.empty() && here.pinnedNode != own->second.room.nodeName;
    here.pinnedNode = own->second.room.nodeName;
    if (!elsewhere)
      if (auto decision = scheduler::decide(cluster_, here, suits); decision.fits) return decision;
  }
  return scheduler::decide(cluster_, ask.request, suits);
}

std::vector<scheduler::GangMember> ClusterView::inTheirRoom(const std::vector<SchedulingRequest>& asks,
                                                            std::vector<scheduler::GangMember> members) const {
  for (std::size_t i = 0; i < asks.size(); ++i) {
    const auto own = nominated_.find(asks[i].claimUid);
    if (own == nominated_.end()) return {};
    auto& pinned = members[i].request.pinnedNode;
    if (!pinned.empty() && pinned != own->second.room.nodeName) return {};
    pinned = own->second.room.nodeName;
  }
  return members;
}

}  // namespace egpu::cache
