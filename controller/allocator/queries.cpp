#include "controller/allocator/queries.h"

#include <algorithm>
#include <utility>

#include "controller/allocator/allocator_state.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/quota/book.h"

namespace egpu::allocator {
namespace {

// Nodes per critical section of scoreNodes(); each limit takes some hundreds of microseconds. A single request reads
// each node once; several requests are tried on each node.
constexpr std::size_t kNodesJudged = 8192;
constexpr std::size_t kNodesTried = 256;

/// uids: by name of the victim.
std::vector<std::string> uidsAmong(const std::unordered_map<std::string, std::string>& uids,
                                   const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const auto& name : names)
    if (const auto known = uids.find(name); known != uids.end()) found.push_back(known->second);
  return found;
}
/// Removes devices from the scheduler's cluster, and then allocates nominated capacity, also of these devices.
Nominator::Hold beginTrial(AllocatorState& state, const std::vector<SchedulingRequest>& asks,
                           const std::vector<std::string>& withoutDevices) EGPU_REQUIRES(state.mutex) {
  state.cluster.excludeDevices(withoutDevices, true);
  return state.nominator.hold(asks);
}

void endTrial(AllocatorState& state, const Nominator::Hold& held, const std::vector<std::string>& withoutDevices)
    EGPU_REQUIRES(state.mutex) {
  state.nominator.release(held);
  state.cluster.excludeDevices(withoutDevices, false);
}

}  // namespace

std::string reservedNodeText(const std::string& node) {
  return "node " + node + " is reserved for a claim that has been pending longer";
}

bool Queries::wouldFitTogether(const std::vector<SchedulingRequest>& asks, const scheduler::NodePredicate& suits,
                               const std::vector<std::string>& withoutDevices) {
  const base::MutexLock lock(state_.mutex);
  scheduler::NodePredicate open;
  const auto& nodes = state_.reservations.openNodes(asks, suits, open);
  auto held = beginTrial(state_, asks, withoutDevices);
  const auto together = state_.decideWithinQuotas(asks, requestsOf(asks), nodes, [&]() EGPU_REQUIRES(state_.mutex) {
    endTrial(state_, held, withoutDevices);
    state_.yield();
    held = beginTrial(state_, asks, withoutDevices);
  });
  endTrial(state_, held, withoutDevices);
  return !together.decisions.empty();
}

scheduler::Decision Queries::decideWithout(const SchedulingRequest& ask, const cache::Gpu& device,
                                           const scheduler::NodePredicate& suits) {
  const std::vector<SchedulingRequest> asks{ask};
  const std::vector<std::string> without{device.metadata.name};
  const base::MutexLock lock(state_.mutex);
  scheduler::NodePredicate open;
  const auto& nodes = state_.reservations.openNodes(asks, suits, open);
  const auto held = beginTrial(state_, asks, without);
  auto decision = scheduler::decide(state_.cluster.cluster(), ask.request, nodes);
  endTrial(state_, held, without);
  return decision;
}

std::vector<scheduler::NodeVerdict> Queries::scoreNodes(const std::vector<SchedulingRequest>& asks,
                                                        std::span<const std::string_view> nodes,
                                                        const std::vector<std::string>& withoutDevices,
                                                        scheduler::Judge what) {
  const auto requests = requestsOf(asks);
  std::vector<scheduler::NodeVerdict> verdicts;
  verdicts.reserve(nodes.size());
  const base::MutexLock lock(state_.mutex);
  while (verdicts.size() < nodes.size()) {
    if (!verdicts.empty()) state_.yield();
    const auto claims = state_.quotaClaimsFor(asks);
    const bool simple = asks.size() == 1 && claims.empty();
    const auto here = nodes.subspan(verdicts.size())
                          .first(std::min(nodes.size() - verdicts.size(), simple ? kNodesJudged : kNodesTried));
    const auto held = beginTrial(state_, asks, withoutDevices);
    auto some = scheduler::scoreNodes(state_.cluster.cluster(), requests, here, state_.quotas.book(), claims, what);
    endTrial(state_, held, withoutDevices);
    state_.reservations.filterVerdicts(asks, here, some);
    verdicts.insert(verdicts.end(), some.begin(), some.end());
  }
  return verdicts;
}

scheduler::Explanation Queries::explain(const scheduler::Request& request, const scheduler::NodePredicate& suits,
                                        std::string_view nodes, const scheduler::WhyUnsuited& whyUnsuited) const {
  const bool shared = !suits || !nodes.empty();
  using Clock = ExplanationCache::Clock;
  // One thread at a time: threads that wait with an equal request then find the cached explanation.
  const base::MutexLock one(explaining_);
  const auto began = Clock::now();
  if (shared)
    if (const auto* known = explanations_.find(request, nodes, began)) return *known;
  scheduler::Explanation explanation;
  {
    // Reading 100,000 nodes takes long and is not urgent, so decisions run in between.
    const base::MutexLock lock(state_.mutex);
    const auto yield = [this]() EGPU_REQUIRES(state_.mutex) { state_.yield(); };
    explanation = scheduler::explain(state_.cluster.cluster(), request, suits, 0, yield, whyUnsuited);
  }
  if (shared) explanations_.store(request, nodes, explanation, began, Clock::now());
  return explanation;
}

scheduler::Explanation Queries::explainGang(const std::vector<SchedulingRequest>& asks,
                                            const std::vector<GangMemberConstraints>& places,
                                            const std::vector<scheduler::TopologyGroup>* within,
                                            const scheduler::WhyUnsuitedForMember& whyUnsuited) {
  base::MutexLock lock(state_.mutex);
  auto members = state_.membersOf(asks, places);
  auto now = state_.projectedSnapshot(asks);
  lock.unlock();
  now.carryOutPending();
  for (auto& member : members) member.suits = now.open(member.suits);
  scheduler::Cluster trial = *now.cluster;
  return scheduler::explainGang(trial, members, within, now.book, [&](std::size_t member, std::string_view node) {
    if (std::find(now.closed.begin(), now.closed.end(), node) != now.closed.end())
      return std::string("reserved for a claim that has waited longer");
    return whyUnsuited ? whyUnsuited(member, node) : std::string();
  });
}

scheduler::Preemption Queries::preempt(const SchedulingRequest& ask, const scheduler::NodePredicate& suits,
                                       const scheduler::IsEvictable& isEvictable,
                                       const scheduler::EvictionRankOf& standing,
                                       const scheduler::StopCondition& enough) {
  base::MutexLock lock(state_.mutex);
  const auto claim = state_.quotaClaimFor(ask);
  auto now = state_.projectedSnapshot({ask});
  lock.unlock();
  now.carryOutPending();
  if (claim)
    return scheduler::preemptWithin(*now.cluster, now.book, {*claim, ask.request, {}}, now.open(suits), isEvictable,
                                    standing, enough);
  return scheduler::preempt(*now.cluster, ask.request, now.open(suits), isEvictable, scheduler::kMaxPreemptions, {}, {},
                            standing, enough);
}

scheduler::PreemptionTogether Queries::preemptTogether(const std::vector<SchedulingRequest>& asks,
                                                       const std::vector<GangMemberConstraints>& places,
                                                       const std::vector<scheduler::TopologyGroup>* within,
                                                       const scheduler::IsEvictable& isEvictable,
                                                       const scheduler::EvictionRankOf& standing,
                                                       const scheduler::StopCondition& enough) {
  base::MutexLock lock(state_.mutex);
  auto members = state_.membersOf(asks, places);
  auto now = state_.projectedSnapshot(asks);
  lock.unlock();
  now.carryOutPending();
  for (auto& member : members) member.suits = now.open(member.suits);
  return scheduler::preemptTogether(*now.cluster, members, within, now.book, isEvictable, standing,
                                    scheduler::kMaxPreemptions, enough);
}

uint64_t Queries::copies() const {
  const base::MutexLock lock(state_.mutex);
  return state_.cluster.snapshots().copies();
}

bool Queries::releaseAll(const std::vector<SchedulingRequest>& asks,
                         const std::vector<v1alpha::Nomination>& nominations, scheduler::NominatedCapacity& tried,
                         std::unordered_map<std::string, std::string>& victims) {
  std::vector<std::string> uids;
  {
    const base::MutexLock lock(state_.mutex);
    if (state_.cluster.isAnyPlaced(asks)) return false;
    tried = scheduler::NominatedCapacity(state_.nominator.quotasAfter(asks));
    for (std::size_t i = 0; i < asks.size(); ++i) {
      tried.add(state_.cluster.cluster(), nominations[i].nodeName, asks[i].request,
                asks[i].request.adminAccess ? std::nullopt : state_.quotaClaimFor(asks[i]));
      for (const auto& victim : nominations[i].victims)
        if (const auto* const uid = state_.cluster.uidOf(victim)) victims.emplace(victim, uids.emplace_back(*uid));
    }
    const auto* const cluster = &state_.cluster;
    state_.nominator.eachBlocking(asks, [&](const std::string& uid, const NominatedClaim& other) {
      if (auto* const node = tried.find(other.nomination.nodeName))
        carryOut(*node, Nominator::nominatedKey(uid), other, cluster->uidsOf(other.nomination.victims));
    });
  }
  return tried.release(uids);
}

bool Queries::needs(const std::vector<SchedulingRequest>& asks, const std::vector<v1alpha::Nomination>& nominations,
                    const std::vector<std::string>& group) {
  scheduler::NominatedCapacity tried;
  std::unordered_map<std::string, std::string> victims;
  if (!releaseAll(asks, nominations, tried, victims)) return false;
  const auto uids = uidsAmong(victims, group);
  return !uids.empty() && !tried.spareAll(uids);
}

std::optional<std::set<std::string>> Queries::neededVictims(const std::vector<SchedulingRequest>& asks,
                                                            const std::vector<v1alpha::Nomination>& nominations,
                                                            const VictimGroup& groupOf) {
  std::set<std::string> needed, judged;
  scheduler::NominatedCapacity tried;
  std::unordered_map<std::string, std::string> victims;
  if (!releaseAll(asks, nominations, tried, victims)) return std::nullopt;
  for (const auto& nomination : nominations)
    for (const auto& victim : nomination.victims) {
      if (!victims.contains(victim) || judged.contains(victim)) continue;
      const auto group = groupOf(victim);
      judged.insert(group.begin(), group.end());
      if (!tried.spareAll(uidsAmong(victims, group))) needed.insert(group.begin(), group.end());
    }
  return needed;
}

std::string Queries::withheldText(const SchedulingRequest& ask) const {
  const base::MutexLock lock(state_.mutex);
  std::string text;
  const std::string own = ask.claim.substr(0, ask.claim.find('/') + 1);
  const auto add = [&](const scheduler::PendingRequest& owner, const std::string& node) {
    // Users may not be allowed to read other namespaces.
    text += (text.empty() ? "capacity reserved for other claims: node " : ", node ") + node +
            (owner.name.starts_with(own) ? " (claim " + owner.name + ")" : " (a claim of another namespace)");
  };
  state_.eachWithheld({ask}, add);
  return text;
}

bool Queries::hasNominationBefore(const SchedulingRequest& ask) const {
  const base::MutexLock lock(state_.mutex);
  return state_.nominator.hasBefore(ask);
}

bool Queries::isNominated(std::string_view card, std::string_view node) const {
  const base::MutexLock lock(state_.mutex);
  return state_.nominator.isNominated(card, node);
}

std::set<std::string, std::less<>> Queries::nodesWithheldFrom(const std::vector<SchedulingRequest>& asks) const {
  std::set<std::string, std::less<>> nodes;
  const base::MutexLock lock(state_.mutex);
  state_.eachWithheld(asks, [&nodes](const auto&, const std::string& node) { nodes.insert(node); });
  return nodes;
}

std::set<std::string, std::less<>> Queries::nodesReservedForOthers(std::string_view claim) const {
  std::set<std::string, std::less<>> nodes;
  const base::MutexLock lock(state_.mutex);
  const auto add = [&](const scheduler::PendingRequest& owner, const std::string& node) {
    if (owner.name != claim) nodes.insert(node);
  };
  state_.nominator.eachPending(add);
  state_.reservations.eachPending(add);
  return nodes;
}

std::string Queries::reservationText(std::string_view claimUid) const {
  const base::MutexLock lock(state_.mutex);
  return state_.reservations.text(claimUid);
}

std::vector<scheduler::ReservedNode> Queries::nodeReservations() const {
  const base::MutexLock lock(state_.mutex);
  return state_.reservations.list();
}

Queries::WithheldFromResize Queries::withheldFromResize(const SchedulingRequest& ask, const cache::Gpu& device) const {
  WithheldFromResize withheld;
  for (const auto& part : device.spec.cards) withheld.cards.push_back({part.name, {}, {}});
  const std::vector<SchedulingRequest> asks{ask};
  const base::MutexLock lock(state_.mutex);
  state_.nominator.eachBlocking(asks, [&withheld](const std::string&, const NominatedClaim& nominated) {
    for (const auto& nominatedCard : nominated.nomination.cards)
      for (auto& card : withheld.cards)
        if (card.card == nominatedCard.name) {
          card.charged.core += nominatedCard.core;
          card.charged.memory += nominatedCard.memory;
        }
  });
  std::erase_if(withheld.cards, [](const auto& card) { return card.charged == scheduler::Amount{}; });
  state_.reservations.eachBlocking(asks, [&](const std::string&, const NodeReservation& reservation) {
    withheld.node = withheld.node || reservation.node == device.spec.nodeName;
  });
  return withheld;
}

scheduler::Request Queries::withinQuota(const SchedulingRequest& ask) {
  auto request = ask.request;
  const base::MutexLock lock(state_.mutex);
  const auto claim = request.adminAccess ? std::nullopt : state_.quotaClaimFor(ask);
  if (!claim) return request;
  request.quota = state_.quotas.remaining(*claim, state_.nominator.quotaHolds({ask}, false));
  return request;
}

std::optional<scheduler::QuotaExcess> Queries::excessWith(const SchedulingRequest& ask, const cache::Gpu& device) {
  const base::MutexLock lock(state_.mutex);
  const auto asked = state_.askedWith(ask, device);
  if (!asked) return std::nullopt;
  return state_.quotas.excessOf(*asked, state_.nominator.quotaHolds({ask}, false));
}

scheduler::QuotaUsage Queries::quotaUsed(const core::ObjectKey& quota) {
  const base::MutexLock lock(state_.mutex);
  state_.cluster.countForQuotas();
  return state_.quotas.book().usage(quota.namespace_, quota.name);
}

std::string Queries::quotaHolders(const scheduler::QuotaExcess& excess, bool releases) {
  const base::MutexLock lock(state_.mutex);
  state_.cluster.countForQuotas();
  return scheduler::quotaHoldersText(state_.quotas.book(), excess, releases);
}

std::optional<uint64_t> Queries::refusingQuotas(std::string_view namespace_) const {
  const base::MutexLock lock(state_.mutex);
  return state_.quotas.book().refusing(namespace_);
}

scheduler::Cluster Queries::copy() const {
  const base::MutexLock lock(state_.mutex);
  return state_.cluster.cluster();  // a copy as the base class: it reports to no listener
}

}  // namespace egpu::allocator
