// Preemption and explanations on a snapshot of the cluster, while other decisions run.
#include <algorithm>
#include <utility>

#include "controller/allocator/allocator.h"
#include "controller/scheduler/choice/nominated_rooms.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::cache {
namespace {

/// Carries out a nomination in `cluster`: releases the victims, and allocates the nominated capacity for the owner.
void carryOut(scheduler::Cluster& cluster, const std::string& key, const v1alpha::Nomination& room,
              const std::vector<std::string>& victimUids) {
  for (const auto& card : cluster.cardsOf(room.nodeName))
    for (const auto& uid : victimUids) cluster.giveBack(card, uid);
  for (const auto& card : room.cards)
    cluster.take(card.name, key, scheduler::freeUpTo(cluster, card.name, {card.core, card.memory}));
}

}  // namespace

uint64_t ClusterView::copies() const {
  const std::lock_guard lock(mutex_);
  return snapshots_.copies();
}

std::vector<std::string> ClusterView::uidsOf(const std::vector<std::string>& devices) const {
  std::vector<std::string> uids;
  for (const auto& name : devices)
    if (const auto known = devices_.find(name); known != devices_.end())
      uids.push_back(known->second.object->metadata.uid);
  return uids;
}

ClusterView::ProjectedSnapshot ClusterView::projectedSnapshot(const std::vector<SchedulingRequest>& asks,
                                                              std::unique_lock<std::mutex>& lock) {
  struct Before {
    std::string key;
    v1alpha::Nomination room;
    std::vector<std::string> victims;
  };
  ProjectedSnapshot projected{snapshots_.snapshotOf(cluster_), {}, quotasThen(asks)};
  std::vector<Before> before;
  for (const auto& [uid, nominated] : nominated_)
    if (roomIsKeptFrom(asks, uid, nominated))
      before.push_back({nominatedKey(uid), nominated.room, uidsOf(nominated.room.victims)});
  for (const auto& [uid, node] : reservations_)
    if (reservationBlocks(asks, uid, node)) projected.closed.push_back(node.node);
  lock.unlock();
  if (before.empty()) return projected;
  auto after = std::make_shared<scheduler::Cluster>(*projected.cluster);
  for (const auto& each : before) carryOut(*after, each.key, each.room, each.victims);
  projected.cluster = std::move(after);
  return projected;
}

scheduler::NodePredicate ClusterView::ProjectedSnapshot::open(const scheduler::NodePredicate& suits) const {
  if (closed.empty()) return suits;
  return [this, suits](std::string_view node) {
    return std::find(closed.begin(), closed.end(), node) == closed.end() && (!suits || suits(node));
  };
}

scheduler::Preemption ClusterView::preempt(const SchedulingRequest& ask, const scheduler::NodePredicate& suits,
                                           const scheduler::IsEvictable& isEvictable,
                                           const scheduler::EvictionRankOf& standing,
                                           const scheduler::StopCondition& enough) {
  std::unique_lock lock(mutex_);
  const auto claim = quotaClaimFor(ask);
  const auto now = projectedSnapshot({ask}, lock);
  if (claim)
    return scheduler::preemptWithin(*now.cluster, now.book, {*claim, ask.request, {}}, now.open(suits), isEvictable,
                                    standing, enough);
  return scheduler::preempt(*now.cluster, ask.request, now.open(suits), isEvictable, scheduler::kMaxPreemptions, {}, {},
                            standing, enough);
}

scheduler::PreemptionTogether ClusterView::preemptTogether(const std::vector<SchedulingRequest>& asks,
                                                           const std::vector<GangMemberConstraints>& places,
                                                           const std::vector<scheduler::TopologyGroup>* within,
                                                           const scheduler::IsEvictable& isEvictable,
                                                           const scheduler::EvictionRankOf& standing,
                                                           const scheduler::StopCondition& enough) {
  std::unique_lock lock(mutex_);
  auto members = membersOf(asks, places);
  const auto now = projectedSnapshot(asks, lock);
  for (auto& member : members) member.suits = now.open(member.suits);
  return scheduler::preemptTogether(*now.cluster, members, within, now.book, isEvictable, standing,
                                    scheduler::kMaxPreemptions, enough);
}

scheduler::Explanation ClusterView::explainGang(const std::vector<SchedulingRequest>& asks,
                                                const std::vector<GangMemberConstraints>& places,
                                                const std::vector<scheduler::TopologyGroup>* within,
                                                const scheduler::WhyUnsuitedForMember& whyUnsuited) {
  std::unique_lock lock(mutex_);
  auto members = membersOf(asks, places);
  const auto now = projectedSnapshot(asks, lock);
  for (auto& member : members) member.suits = now.open(member.suits);
  scheduler::Cluster trial = *now.cluster;
  return scheduler::explainGang(trial, members, within, now.book, [&](std::size_t member, std::string_view node) {
    if (std::find(now.closed.begin(), now.closed.end(), node) != now.closed.end())
      return std::string("reserved for a claim that has waited longer");
    return whyUnsuited ? whyUnsuited(member, node) : std::string();
  });
}

namespace {
/// uids: by name of the victim.
std::vector<std::string> uidsAmong(const std::unordered_map<std::string, std::string>& uids,
                                   const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const auto& name : names)
    if (const auto known = uids.find(name); known != uids.end()) found.push_back(known->second);
  return found;
}
}  // namespace

bool ClusterView::releaseAll(const std::vector<SchedulingRequest>& asks, const std::vector<v1alpha::Nomination>& rooms,
                             scheduler::NominatedRooms& tried, std::unordered_map<std::string, std::string>& victims) {
  std::vector<std::string> uids;
  {
    const std::lock_guard lock(mutex_);
    if (anyIsPlaced(asks)) return false;
    tried = scheduler::NominatedRooms(quotasThen(asks));
    for (std::size_t i = 0; i < asks.size(); ++i) {
      tried.add(cluster_, rooms[i].nodeName, asks[i].request,
                asks[i].request.adminAccess ? std::nullopt : quotaClaimFor(asks[i]));
      for (const auto& victim : rooms[i].victims)
        if (const auto known = devices_.find(victim); known != devices_.end())
          victims.emplace(victim, uids.emplace_back(known->second.object->metadata.uid));
    }
    for (const auto& [uid, other] : nominated_)
      if (auto* const node = tried.find(other.room.nodeName); node != nullptr && roomIsKeptFrom(asks, uid, other))
        carryOut(*node, nominatedKey(uid), other.room, uidsOf(other.room.victims));
  }
  return tried.release(uids);
}

bool ClusterView::needs(const std::vector<SchedulingRequest>& asks, const std::vector<v1alpha::Nomination>& rooms,
                        const std::vector<std::string>& group) {
  scheduler::NominatedRooms tried;
  std::unordered_map<std::string, std::string> victims;
  if (!releaseAll(asks, rooms, tried, victims)) return false;
  const auto uids = uidsAmong(victims, group);
  return !uids.empty() && !tried.spareAll(uids);
}

std::optional<std::set<std::string>> ClusterView::neededVictims(const std::vector<SchedulingRequest>& asks,
                                                                const std::vector<v1alpha::Nomination>& rooms,
                                                                const VictimGroup& groupOf) {
  std::set<std::string> needed, judged;
  scheduler::NominatedRooms tried;
  std::unordered_map<std::string, std::string> victims;
  if (!releaseAll(asks, rooms, tried, victims)) return std::nullopt;
  for (const auto& room : rooms)
    for (const auto& victim : room.victims) {
      if (!victims.contains(victim) || judged.contains(victim)) continue;
      const auto group = groupOf(victim);
      judged.insert(group.begin(), group.end());
      if (!tried.spareAll(uidsAmong(victims, group))) needed.insert(group.begin(), group.end());
    }
  return needed;
}

}  // namespace egpu::cache
