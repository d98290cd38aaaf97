// Decisions of ClusterView: for one claim, for all claims of a pod, for a gang; and what-if decisions that assume
// nothing.
#include "controller/allocator/allocator.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

namespace egpu::cache {

namespace {

// Nodes per critical section of scoreNodes(); each limit takes some hundreds of microseconds. A single request reads each
// node once; several requests are tried on each node.
constexpr std::size_t kNodesJudged = 8192;
constexpr std::size_t kNodesTried = 256;

}  // namespace

scheduler::Decision ClusterView::decideOne(const SchedulingRequest& ask, RecordingPredicate& nodes, bool shared,
                                           PredicateTrace& told) {
  scheduler::Decision decision;
  if (quotaClaimFor(ask)) {
    scheduler::Together within;
    // Tries its nominated node first, as decideHere() does.
    const auto own = nominated_.find(ask.claimUid);
    auto here = ask.request;
    if (own != nominated_.end() && (here.pinnedNode.empty() || here.pinnedNode == own->second.room.nodeName)) {
      here.pinnedNode = own->second.room.nodeName;
      within = decideFor({ask}, {here}, nodes.predicate(), {});
    }
    if (within.decisions.empty()) within = decideFor({ask}, {ask.request}, nodes.predicate(), {});
    if (!within.decisions.empty()) decision = std::move(within.decisions.front());
    decision.excess = std::move(within.excess);
    told = nodes.take();
    return decision;
  }
  if (const auto* const known = shared ? unschedulable_.find(ask.request, ask.nodes) : nullptr) {
    told = *known;
    return decision;
  }
  decision = decideHere(ask, nodes.predicate());
  told = nodes.take();
  if (shared && !decision.fits) unschedulable_.store(ask.request, ask.nodes, told);
  return decision;
}

scheduler::Decision ClusterView::decideAndAssume(const SchedulingRequest& ask, const scheduler::NodePredicate& suits) {
  std::unique_lock lock(mutex_);
  const auto start = std::chrono::steady_clock::now();
  cluster_.show();
  const std::vector<SchedulingRequest> asks{ask};
  const auto retracted = forgetForRetry(ask.claimUid);
  demand_.record(cluster_, ask.claimUid, ask.request);
  // Allocating and releasing a large gang's nominated capacity for each pending claim would cost more than the
  // decision.
  const auto filled = filledNodes(asks);
  const scheduler::NodePredicate beside = [&filled, &suits](std::string_view node) {
    return !std::binary_search(filled.begin(), filled.end(), node, std::less<>()) && (!suits || suits(node));
  };
  scheduler::NodePredicate open;
  RecordingPredicate nodes(openNodes(asks, filled.empty() ? suits : beside, open), cluster_.told());
  const auto held = reserveNominatedCapacity(asks, filled);
  const bool kept = !held.empty() || !filled.empty() || open || nominated_.contains(ask.claimUid);
  const bool shared = suits && !ask.nodes.empty() && !kept && retracted.empty();
  PredicateTrace told;
  auto decision = decideOne(ask, nodes, shared, told);
  releaseNominatedCapacity(held);
  // The listener knows neither quotas, nominations nor reservations, so it could not reproduce such a decision.
  tell({&ask, 1}, decision.fits ? std::vector{decision} : std::vector<scheduler::Decision>(), std::move(told),
       kept || quotaClaimFor(ask).has_value());
  if (decision.fits) {
    assume(ask, decision);
    demand_.forget(ask.claimUid);  // it is no longer pending
  } else if (decision.excess && ask.first) {
    reserveQuota(asks, *decision.excess);
  }
  capacityFreed_ = freedBy(ask.claimUid, retracted) || capacityFreed_;
  const bool news = capacityFreed_ || book_.changed();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  lock.unlock();
  if (news) announce();
  if (decided_) decided_(decision.fits, took.count());
  if (!decision.fits && !decision.excess) reserveNodeFor(asks, suits, {});
  return decision;
}

bool ClusterView::mayFit(const SchedulingRequest& ask) {
  const std::lock_guard lock(mutex_);
  if (nominated_.contains(ask.claimUid)) return true;  // on its nominated node
  const auto& request = ask.request;
  if (unschedulable_.isUnschedulable(request)) return false;
  if (const auto claim = quotaClaimFor(ask)) {
    // Called in queue order: if the quotas refuse one claim, they also refuse later claims with an equal request.
    if (unschedulable_.isUnschedulableWithin(*claim, request)) return false;
    if (!decideFor({ask}, {request}, {}, {}).decisions.empty()) return true;
    unschedulable_.storeUnschedulableWithin(*claim, request);
    return false;
  }
  if (scheduler::decide(cluster_, request).fits) return true;
  unschedulable_.storeUnschedulable(request);
  return false;
}

std::vector<scheduler::Decision> ClusterView::candidates(const SchedulingRequest& ask,
                                                         const scheduler::NodePredicate& suits, std::size_t most) {
  std::vector<scheduler::Decision> found;
  const scheduler::NodePredicate others = [&found, &suits](std::string_view node) {
    const auto there = [node](const auto& decision) { return decision.node == node; };
    return std::none_of(found.begin(), found.end(), there) && (!suits || suits(node));
  };
  std::unique_lock lock(mutex_);
  cluster_.show();
  const std::vector<SchedulingRequest> asks{ask};
  scheduler::NodePredicate open;
  const auto& suitable = openNodes(asks, others, open);
  const auto retracted = forgetForRetry(ask.claimUid);
  const auto held = reserveNominatedCapacity(asks);
  while (found.size() < most) {
    RecordingPredicate nodes(suitable, false);
    PredicateTrace told;
    auto decision = decideOne(ask, nodes, false, told);
    if (!decision.fits) break;
    found.push_back(std::move(decision));
  }
  releaseNominatedCapacity(held);
  capacityFreed_ = freedBy(ask.claimUid, retracted) || capacityFreed_;
  const bool news = capacityFreed_ || book_.changed();
  lock.unlock();
  if (news) announce();
  return found;
}

void ClusterView::tell(std::span<const SchedulingRequest> asks, const std::vector<scheduler::Decision>& decisions,
                       PredicateTrace nodes, bool meanwhile) {
  if (!cluster_.told()) return;
  Decided decided{{}, decisions, std::move(nodes), meanwhile};
  for (const auto& ask : asks) decided.asks.push_back({ask.claimUid, ask.claim, ask.request});
  cluster_.decided(std::move(decided));
}

scheduler::Together ClusterView::decideTogether(const std::vector<SchedulingRequest>& asks,
                                                const scheduler::NodePredicate& suits) {
  std::unique_lock lock(mutex_);
  const auto start = std::chrono::steady_clock::now();
  cluster_.show();
  scheduler::NodePredicate open;
  RecordingPredicate nodes(openNodes(asks, suits, open), cluster_.told());
  // The listener knows no quotas, nominations, reservations or intermediate changes: it could not reproduce the
  // decision.
  bool given = open || std::any_of(asks.begin(), asks.end(),
                                   [this](const SchedulingRequest& ask) { return quotaClaimFor(ask).has_value(); });
  std::vector<scheduler::Request> requests;
  std::vector<std::vector<Assumed>> retracted;
  for (const auto& ask : asks) {
    retracted.push_back(forgetForRetry(ask.claimUid));
    demand_.record(cluster_, ask.claimUid, ask.request);
    requests.push_back(ask.request);
  }
  auto held = reserveNominatedCapacity(asks);
  given = given || !held.empty();
  auto together = decideFor(asks, requests, nodes.predicate(), [&] {
    const auto before = cluster_.changes();
    releaseNominatedCapacity(held);
    yieldLock(lock);
    held = reserveNominatedCapacity(asks);
    given = given || cluster_.changes() != before;
  });
  releaseNominatedCapacity(held);
  tell(asks, together.decisions, nodes.take(), given);
  bool freed = false;
  for (std::size_t i = 0; i < asks.size(); ++i) {
    if (!together.decisions.empty()) {
      // Another pod may have decided the same claim during a pause.
      const auto others = forgetForRetry(asks[i].claimUid);
      assume(asks[i], together.decisions[i]);
      demand_.forget(asks[i].claimUid);
      freed = freedBy(asks[i].claimUid, others) || freed;
    }
    freed = freedBy(asks[i].claimUid, retracted[i]) || freed;
  }
  capacityFreed_ = freed || capacityFreed_;
  const bool news = capacityFreed_ || book_.changed();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  lock.unlock();
  if (news) announce();
  if (decided_) decided_(!together.decisions.empty(), took.count());
  if (together.decisions.empty() && !together.excess) reserveNodeFor(asks, suits, {});
  return together;
}

bool ClusterView::anyIsPlaced(const std::vector<SchedulingRequest>& asks) const {
  return std::any_of(asks.begin(), asks.end(), [this](const SchedulingRequest& ask) { return isPlaced(ask.claimUid); });
}

std::vector<scheduler::GangMember> ClusterView::membersOf(const std::vector<SchedulingRequest>& asks,
                                                          const std::vector<GangMemberConstraints>& places) {
  std::vector<scheduler::GangMember> members;
  for (std::size_t i = 0; i < asks.size(); ++i)
    members.push_back(
        {asks[i].request, places[i].suits, quotaClaimFor(asks[i]), places[i].hasRoom, places[i].with, places[i].kind});
  return members;
}

std::optional<scheduler::GangDecision> ClusterView::decideGang(const std::vector<SchedulingRequest>& asks,
                                                               const std::vector<GangMemberConstraints>& places,
                                                               const std::vector<scheduler::TopologyGroup>* within) {
  std::unique_lock lock(mutex_);
  if (anyIsPlaced(asks)) return std::nullopt;
  const auto start = std::chrono::steady_clock::now();
  cluster_.show();
  auto members = membersOf(asks, places);
  std::vector<scheduler::NodePredicate> open(asks.size());
  for (std::size_t i = 0; i < asks.size(); ++i) {
    demand_.record(cluster_, asks[i].claimUid, asks[i].request);
    members[i].suits = openNodes(asks, places[i].suits, open[i]);
  }
  auto held = reserveNominatedCapacity(asks);
  const auto decide = [&](const std::vector<scheduler::GangMember>& all) {
    return scheduler::decideGang(cluster_, all, within, book_, [&] {
      releaseNominatedCapacity(held);
      yieldLock(lock);
      held = reserveNominatedCapacity(asks);
    });
  };
  const auto there = inTheirRoom(asks, members);
  auto gang = there.empty() ? scheduler::GangDecision() : decide(there);
  if (gang.decisions.empty()) gang = decide(members);
  releaseNominatedCapacity(held);
  if (anyIsPlaced(asks)) return std::nullopt;  // decided by another thread during a pause
  const bool outside = gang.lacking && gang.lacking->excess;
  if (outside) book_.refused(members.front().claim->namespace_);
  if (outside) reserveQuota(asks, *gang.lacking->excess);
  for (std::size_t i = 0; i < gang.decisions.size(); ++i) {
    // The listener takes several requests as one node's, so each is reported alone; and it cannot reproduce a gang's
    // decision.
    tell({&asks[i], 1}, {gang.decisions[i]}, {}, true);
    assume(asks[i], gang.decisions[i]);
    assumptions_[asks[i].claimUid].inGang = gang.decisions[i];
    demand_.forget(asks[i].claimUid);
  }
  const bool news = capacityFreed_ || book_.changed();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  lock.unlock();
  if (news) announce();
  if (decided_) decided_(!gang.decisions.empty(), took.count());
  if (gang.decisions.empty() && !outside) keepForGang(asks, places, within);
  return gang;
}

std::optional<scheduler::Decision> ClusterView::decidedInGang(std::string_view claimUid) const {
  const std::lock_guard lock(mutex_);
  const auto known = assumptions_.find(std::string(claimUid));
  return known == assumptions_.end() ? std::nullopt : known->second.inGang;
}

bool ClusterView::wouldFitTogether(const std::vector<SchedulingRequest>& asks, const scheduler::NodePredicate& suits,
                                   const std::vector<std::string>& withoutDevices) {
  std::vector<scheduler::Request> requests;
  requests.reserve(asks.size());
  for (const auto& ask : asks) requests.push_back(ask.request);
  std::unique_lock lock(mutex_);
  scheduler::NodePredicate open;
  const auto& nodes = openNodes(asks, suits, open);
  NominatedCapacityHold held;
  const auto begin = [&] {
    excludeDevices(withoutDevices, true);
    held = reserveNominatedCapacity(asks);  // including capacity that they free
  };
  const auto end = [&] {
    releaseNominatedCapacity(held);
    excludeDevices(withoutDevices, false);
  };
  begin();
  const auto together = decideFor(asks, requests, nodes, [&] {
    end();
    yieldLock(lock);
    begin();
  });
  end();
  return !together.decisions.empty();
}

std::vector<scheduler::NodeVerdict> ClusterView::scoreNodes(const std::vector<SchedulingRequest>& asks,
                                                            std::span<const std::string_view> nodes,
                                                            const std::vector<std::string>& withoutDevices,
                                                            scheduler::Judge what) {
  std::vector<scheduler::Request> requests;
  requests.reserve(asks.size());
  for (const auto& ask : asks) requests.push_back(ask.request);
  std::vector<scheduler::NodeVerdict> verdicts;
  verdicts.reserve(nodes.size());
  std::unique_lock lock(mutex_);
  while (verdicts.size() < nodes.size()) {
    if (!verdicts.empty()) yieldLock(lock);
    std::vector<scheduler::QuotaClaim> claims;
    for (const auto& ask : asks)
      if (auto claim = quotaClaimFor(ask)) claims.push_back(*std::move(claim));
    const bool simple = asks.size() == 1 && claims.empty();
    const auto here = nodes.subspan(verdicts.size())
                          .first(std::min(nodes.size() - verdicts.size(), simple ? kNodesJudged : kNodesTried));
    excludeDevices(withoutDevices, true);
    const auto held = reserveNominatedCapacity(asks);  // including capacity that they free
    auto some = scheduler::scoreNodes(cluster_, requests, here, book_, claims, what);
    releaseNominatedCapacity(held);
    excludeDevices(withoutDevices, false);
    filterReservedNodes(asks, here, some);
    verdicts.insert(verdicts.end(), some.begin(), some.end());
  }
  return verdicts;
}

void ClusterView::excludeDevices(const std::vector<std::string>& devices, bool excluded) {
  scheduler::Cluster& cluster = cluster_;  // without notification: restored before the next decision
  for (const auto& name : devices) {
    const auto known = devices_.find(name);
    if (known == devices_.end()) continue;
    const auto& uid = known->second.object->metadata.uid;
    for (auto* const card : known->second.cards) {
      const auto* const held = card->second.find(uid);
      if (held == nullptr || !card->second.present || held->take.effective() == scheduler::Amount{}) continue;
      if (excluded)
        cluster.giveBack(card->first, uid);
      else
        cluster.take(card->first, uid, held->take.effective());
    }
  }
}

scheduler::Explanation ClusterView::explain(const scheduler::Request& request, const scheduler::NodePredicate& suits,
                                            std::string_view nodes, const scheduler::WhyUnsuited& whyUnsuited) const {
  const bool shared = !suits || !nodes.empty();
  using Clock = ExplanationCache::Clock;
  // One thread at a time: threads that wait with an equal request then find the cached explanation.
  const std::lock_guard one(explaining_);
  const auto began = Clock::now();
  if (shared)
    if (const auto* known = explanations_.find(request, nodes, began)) return *known;
  // Reading 100,000 nodes takes long and is not urgent, so decisions run in between.
  std::unique_lock lock(mutex_);
  auto explanation = scheduler::explain(
      cluster_, request, suits, 0, [&lock] { yieldLock(lock); }, whyUnsuited);
  lock.unlock();
  if (shared) explanations_.store(request, nodes, explanation, began, Clock::now());
  return explanation;
}

}  // namespace egpu::cache
