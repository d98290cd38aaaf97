#include "controller/allocator/allocator.h"

#include <algorithm>
#include <utility>

#include "controller/allocator/allocator_state.h"
#include "controller/allocator/placement_attempt.h"
#include "controller/base/mutex.h"

namespace egpu::allocator {

namespace {

/// Tries the claim's own nominated node first.
scheduler::Decision decideOnNominatedFirst(AllocatorState& state, const SchedulingRequest& ask,
                                           const scheduler::NodePredicate& suits) EGPU_REQUIRES(state.mutex) {
  const auto& cluster = state.cluster.cluster();
  if (const auto* const own = state.nominator.find(ask.claimUid)) {
    const auto& nominated = own->nomination.nodeName;
    auto here = ask.request;
    if (here.pinnedNode.empty() || here.pinnedNode == nominated) {
      here.pinnedNode = nominated;
      if (auto decision = scheduler::decide(cluster, here, suits); decision.fits) return decision;
    }
  }
  return scheduler::decide(cluster, ask.request, suits);
}

/// As decideOnNominatedFirst(), for a claim that quotas count.
scheduler::Decision decideOneWithinQuotas(AllocatorState& state, const SchedulingRequest& ask,
                                          const scheduler::NodePredicate& suits) EGPU_REQUIRES(state.mutex) {
  scheduler::Together within;
  if (const auto* const own = state.nominator.find(ask.claimUid)) {
    const auto& nominated = own->nomination.nodeName;
    auto here = ask.request;
    if (here.pinnedNode.empty() || here.pinnedNode == nominated) {
      here.pinnedNode = nominated;
      within = state.decideWithinQuotas({ask}, {here}, suits, {});
    }
  }
  if (within.decisions.empty()) within = state.decideWithinQuotas({ask}, {ask.request}, suits, {});
  scheduler::Decision decision;
  if (!within.decisions.empty()) decision = std::move(within.decisions.front());
  decision.excess = std::move(within.excess);
  return decision;
}

/// Decides one request. isShared: a request that fits no node is cached as unschedulable for all equal requests.
scheduler::Decision decideOne(AllocatorState& state, const SchedulingRequest& ask, RecordingPredicate& nodes,
                              bool isShared, PredicateTrace& trace) EGPU_REQUIRES(state.mutex) {
  scheduler::Decision decision;
  if (state.quotaClaimFor(ask)) {
    decision = decideOneWithinQuotas(state, ask, nodes.predicate());
    trace = nodes.trace();
    return decision;
  }
  if (const auto* const known = isShared ? state.unschedulable.find(ask.request, ask.nodes) : nullptr) {
    trace = *known;
    return decision;
  }
  decision = decideOnNominatedFirst(state, ask, nodes.predicate());
  trace = nodes.trace();
  if (isShared && !decision.fits) state.unschedulable.store(ask.request, ask.nodes, trace);
  return decision;
}

}  // namespace

Allocator::Allocator(cache::Stores& stores)
    : state_(std::make_unique<AllocatorState>(stores)),
      reservationSearch_(*state_),
      queries_(*state_),
      allocationMap_(*state_) {}

Allocator::~Allocator() = default;

scheduler::Decision Allocator::decideAndAssume(const SchedulingRequest& ask, const scheduler::NodePredicate& suits) {
  const std::vector<SchedulingRequest> asks{ask};
  base::MutexLock lock(state_->mutex);
  if (state_->isOutdated(ask.order)) return {};
  auto& nominator = state_->nominator;
  PlacementAttempt attempt(*state_, asks, PlacementAttempt::GroupKind::onOneNode);
  const auto filled = nominator.filledNodes(asks);
  const scheduler::NodePredicate beside = [&filled, &suits](std::string_view node) {
    return !std::binary_search(filled.begin(), filled.end(), node, std::less<>()) && (!suits || suits(node));
  };
  scheduler::NodePredicate open;
  RecordingPredicate nodes(state_->reservations.openNodes(asks, filled.empty() ? suits : beside, open),
                           state_->cluster.cluster().hasListener());
  const auto held = nominator.hold(asks, filled);
  const bool isWithheld = !held.empty() || !filled.empty() || open || nominator.find(ask.claimUid) != nullptr;
  const bool isShared = suits && !ask.nodes.empty() && !isWithheld && !attempt.isRetry();
  auto decision = decideOne(*state_, ask, nodes, isShared, attempt.predicateTrace);
  nominator.release(held);
  attempt.isIrreproducible = isWithheld || state_->quotaClaimFor(ask).has_value();
  if (decision.fits)
    attempt.decisions.push_back(decision);
  else if (decision.excess && ask.first)
    state_->reserveQuota(asks, *decision.excess);
  attempt.commit(*state_);
  lock.unlock();
  attempt.finish(*state_);
  if (!decision.fits && !decision.excess) reservationSearch_.reserveFor(asks, suits, {});
  return decision;
}

uint64_t Allocator::releases() const { return state_->releases; }

bool Allocator::isOutdated(const QueueOrder& order) const {
  if (!order.releases) return false;
  const base::MutexLock lock(state_->mutex);
  return state_->isOutdated(order);
}

bool Allocator::mayFit(const SchedulingRequest& ask) {
  const base::MutexLock lock(state_->mutex);
  if (state_->nominator.find(ask.claimUid) != nullptr) return true;  // on its nominated node
  const auto& request = ask.request;
  auto& unschedulable = state_->unschedulable;
  if (unschedulable.isUnschedulable(request)) return false;
  if (const auto claim = state_->quotaClaimFor(ask)) {
    // Called in queue order: if the quotas refuse one claim, they also refuse later claims with an equal request.
    if (unschedulable.isUnschedulableWithin(*claim, request)) return false;
    if (!state_->decideWithinQuotas({ask}, {request}, {}, {}).decisions.empty()) return true;
    unschedulable.storeUnschedulableWithin(*claim, request);
    return false;
  }
  if (scheduler::decide(state_->cluster.cluster(), request).fits) return true;
  unschedulable.storeUnschedulable(request);
  return false;
}

std::vector<scheduler::Decision> Allocator::candidates(const SchedulingRequest& ask,
                                                       const scheduler::NodePredicate& suits, std::size_t max) {
  std::vector<scheduler::Decision> found;
  const scheduler::NodePredicate others = [&found, &suits](std::string_view node) {
    const auto there = [node](const auto& decision) { return decision.node == node; };
    return std::none_of(found.begin(), found.end(), there) && (!suits || suits(node));
  };
  const std::vector<SchedulingRequest> asks{ask};
  base::MutexLock lock(state_->mutex);
  state_->cluster.cluster().show();
  scheduler::NodePredicate open;
  const auto& suitable = state_->reservations.openNodes(asks, others, open);
  const auto dropped = state_->cluster.forgetForRetry(ask.claimUid);
  const auto held = state_->nominator.hold(asks);
  while (found.size() < max) {
    RecordingPredicate nodes(suitable, false);
    PredicateTrace trace;
    auto decision = decideOne(*state_, ask, nodes, false, trace);
    if (!decision.fits) break;
    found.push_back(std::move(decision));
  }
  state_->nominator.release(held);
  state_->cluster.noteRetried(ask.claimUid, dropped);
  const bool hasNews = state_->hasNews();
  lock.unlock();
  if (hasNews) state_->announce();
  return found;
}

scheduler::Together Allocator::decideTogether(const std::vector<SchedulingRequest>& asks,
                                              const scheduler::NodePredicate& suits) {
  base::MutexLock lock(state_->mutex);
  if (!asks.empty() && state_->isOutdated(asks.front().order)) return {};
  auto& nominator = state_->nominator;
  auto& cluster = state_->cluster.cluster();
  PlacementAttempt attempt(*state_, asks, PlacementAttempt::GroupKind::onOneNode);
  scheduler::NodePredicate open;
  RecordingPredicate nodes(state_->reservations.openNodes(asks, suits, open), cluster.hasListener());
  auto held = nominator.hold(asks);
  attempt.isIrreproducible = open || !held.empty() || !state_->quotaClaimsFor(asks).empty();
  auto together =
      state_->decideWithinQuotas(asks, requestsOf(asks), nodes.predicate(), [&]() EGPU_REQUIRES(state_->mutex) {
        const auto before = cluster.changes();
        nominator.release(held);
        state_->yield();
        held = nominator.hold(asks);
        attempt.isIrreproducible = attempt.isIrreproducible || cluster.changes() != before;
      });
  nominator.release(held);
  attempt.predicateTrace = nodes.trace();
  attempt.decisions = together.decisions;
  attempt.commit(*state_);
  lock.unlock();
  attempt.finish(*state_);
  if (together.decisions.empty() && !together.excess) reservationSearch_.reserveFor(asks, suits, {});
  return together;
}

std::optional<scheduler::GangDecision> Allocator::decideGang(const std::vector<SchedulingRequest>& asks,
                                                             const std::vector<GangMemberConstraints>& constraints,
                                                             const std::vector<scheduler::TopologyGroup>* within) {
  base::MutexLock lock(state_->mutex);
  if (state_->cluster.isAnyPlaced(asks) || state_->isOutdated(asks.front().order)) return std::nullopt;
  auto& nominator = state_->nominator;
  PlacementAttempt attempt(*state_, asks, PlacementAttempt::GroupKind::gang);
  attempt.isIrreproducible = true;
  auto members = state_->membersOf(asks, constraints);
  std::vector<scheduler::NodePredicate> open(asks.size());
  for (std::size_t i = 0; i < asks.size(); ++i)
    members[i].suits = state_->reservations.openNodes(asks, constraints[i].suits, open[i]);
  auto held = nominator.hold(asks);
  const auto decide = [&](const std::vector<scheduler::GangMember>& all) EGPU_REQUIRES(state_->mutex) {
    return scheduler::decideGang(state_->cluster.cluster(), all, within, state_->quotas.book(),
                                 [&]() EGPU_REQUIRES(state_->mutex) {
                                   nominator.release(held);
                                   state_->yield();
                                   held = nominator.hold(asks);
                                 });
  };
  const auto pinned = nominator.pinToNominated(asks, members);
  auto gang = pinned.empty() ? scheduler::GangDecision() : decide(pinned);
  if (gang.decisions.empty()) gang = decide(members);
  nominator.release(held);
  if (state_->cluster.isAnyPlaced(asks)) return std::nullopt;  // decided by another thread during a pause
  const bool exceedsQuota = gang.lacking && gang.lacking->excess;
  if (exceedsQuota) state_->quotas.noteRefused(members.front().claim->namespace_);
  if (exceedsQuota) state_->reserveQuota(asks, *gang.lacking->excess);
  attempt.decisions = gang.decisions;
  attempt.commit(*state_);
  lock.unlock();
  attempt.finish(*state_);
  if (gang.decisions.empty() && !exceedsQuota) reservationSearch_.reserveForGang(asks, constraints, within);
  return gang;
}

std::optional<scheduler::Decision> Allocator::decidedInGang(std::string_view claimUid) const {
  const base::MutexLock lock(state_->mutex);
  const auto* const known = state_->cluster.findAssumption(claimUid);
  return known == nullptr ? std::nullopt : known->inGang;
}

std::optional<scheduler::Resizing> Allocator::decideResize(const SchedulingRequest& ask, const cache::Gpu& device,
                                                           bool mayGrow) {
  scheduler::Resizing resizing;
  bool yields = false;
  {
    const base::MutexLock lock(state_->mutex);
    auto& cluster = state_->cluster;
    auto& nominator = state_->nominator;
    const auto& uid = device.metadata.uid;
    const bool isInTurn = mayGrow && !state_->isOutdated(ask.order);
    cluster.forgetResize(uid);
    const auto old = cluster.holdingsOf(device);
    if (old.empty()) {
      resizing.why = "its cards are not known";
      return resizing;
    }
    const std::vector<SchedulingRequest> asks{ask};
    const auto held = nominator.hold(asks);
    resizing = scheduler::resizeInPlace(cluster.cluster(), old, ask.request);
    if (const auto claim = resizing.inPlace ? state_->quotaClaimFor(ask) : std::nullopt)
      resizing.excess = scheduler::excessOf(cluster.cluster(), state_->quotas.book(), *claim, resizing);
    nominator.release(held);
    const bool grows = resizing.inPlace && resizing.grows();
    if (grows) {
      const scheduler::NodePredicate any;
      scheduler::NodePredicate open;
      const auto& nodes = state_->reservations.openNodes(asks, any, open);
      resizing.inPlace = !nodes || nodes(resizing.node);
      if (!resizing.inPlace) resizing.why = reservedNodeText(resizing.node);
    }
    if (!resizing.inPlace) resizing.excess.reset();
    if (resizing.excess) {
      state_->quotas.noteRefused(namespaceOf(ask.claim));
      resizing.inPlace = false;
    }
    yields = resizing.inPlace && grows && !isInTurn;
    if (resizing.inPlace && grows && isInTurn) cluster.assumeResize(uid, resizing.placements);
  }
  state_->announce();
  if (yields) return std::nullopt;
  return resizing;
}

void Allocator::forgetResize(const cache::Gpu& device) {
  if (state_->writes.resizes == 0) return;
  {
    const base::MutexLock lock(state_->mutex);
    state_->cluster.forgetResize(device.metadata.uid);
  }
  state_->announce();
}

std::optional<scheduler::QuotaExcess> Allocator::chargeQuotas(const SchedulingRequest& ask, const cache::Gpu& device) {
  std::optional<scheduler::QuotaExcess> excess;
  {
    const base::MutexLock lock(state_->mutex);
    state_->cluster.forget(ask.claimUid);
    if (const auto asked = state_->askedWith(ask, device)) {
      excess = state_->quotas.excessOf(*asked, state_->nominator.quotaHolds({ask}, false));
      if (!excess) {
        state_->assume(ask, {});
        state_->quotas.countDevice(ClusterState::assumedKey(ask.claimUid), *asked, device);
      }
    }
  }
  state_->announce();
  return excess;
}

void Allocator::forget(std::string_view claimUid) {
  {
    const base::MutexLock lock(state_->mutex);
    state_->cluster.forget(claimUid);
    state_->releaseReservations(claimUid);
  }
  state_->announce();
}

void Allocator::forgetEarlier(std::string_view claim, std::string_view uid) {
  {
    const base::MutexLock lock(state_->mutex);
    std::vector<std::string> stale;
    for (const auto& [of, assumption] : state_->cluster.assumptions())
      if (of != uid && assumption.claim == claim) stale.push_back(of);
    for (const auto& of : stale) state_->cluster.forget(of);
  }
  state_->announce();
}

bool Allocator::forgetDecision(std::string_view claimUid, uint64_t number) {
  {
    const base::MutexLock lock(state_->mutex);
    const auto* const known = state_->cluster.findAssumption(claimUid);
    if (known == nullptr || known->number != number) return false;
    state_->cluster.forget(claimUid);
  }
  state_->announce();
  return true;
}

void Allocator::confirm(std::string_view claimUid, const cache::Gpu& device) {
  state_->refreshDevice(device.metadata.name);  // the thread that saw it first may not have notified yet
  forget(claimUid);
}

bool Allocator::hasAssumptions() const { return state_->writes.hasAssumptions.load(std::memory_order_relaxed); }

std::vector<AssumedDecision> Allocator::assumptions() const {
  std::vector<AssumedDecision> all;
  const base::MutexLock lock(state_->mutex);
  for (const auto& [uid, assumption] : state_->cluster.assumptions()) {
    auto& each = all.emplace_back(AssumedDecision{uid, assumption.claim, assumption.number, {}});
    for (const auto& on : assumption.cards) each.cards.push_back(on.card);
  }
  return all;
}

void Allocator::setReservationLimits(const scheduler::ReservationLimits& limits) {
  const base::MutexLock lock(state_->mutex);
  state_->reservations.setLimits(limits);
  state_->quotas.setReservationLimits(limits);
}

void Allocator::reserveQuotaFor(const std::vector<SchedulingRequest>& asks, const scheduler::QuotaExcess& excess) {
  {
    const base::MutexLock lock(state_->mutex);
    state_->reserveQuota(asks, excess);
  }
  state_->announce();
}

void Allocator::reserveNodeFor(const std::vector<SchedulingRequest>& asks, const scheduler::NodePredicate& suits,
                               const scheduler::NodePredicate& otherwise) {
  reservationSearch_.reserveFor(asks, suits, otherwise);
}

void Allocator::releaseReservation(std::string_view claimUid) {
  {
    const base::MutexLock lock(state_->mutex);
    if (!state_->reservations.concerns(claimUid) && !state_->quotas.hasReservations()) return;
    state_->releaseReservations(claimUid);
  }
  state_->announce();
}

bool Allocator::hasReservations() const { return state_->hasReservations.load(std::memory_order_relaxed); }

std::vector<std::string> Allocator::expireReservations(int64_t now) {
  std::vector<std::string> toRenew;
  {
    const base::MutexLock lock(state_->mutex);
    auto& reservations = state_->reservations;
    auto& quotas = state_->quotas;
    toRenew = reservations.expire(now);
    quotas.expireReservations(now);
    for (auto& owner : quotas.ownersToAsk(now)) toRenew.push_back(std::move(owner));
    state_->hasReservations = !reservations.empty() || quotas.hasReservations();
  }
  state_->announce();
  return toRenew;
}

void Allocator::onCapacity(std::function<void()> listener) { state_->onCapacity = std::move(listener); }

void Allocator::onQuota(std::function<void(const std::string& namespace_, bool freed)> listener) {
  state_->onQuota = std::move(listener);
}

void Allocator::onDecision(std::function<void(bool fits, double seconds)> listener) {
  state_->onDecision = std::move(listener);
}

void Allocator::listen(ClusterListener& listener) {
  const base::MutexLock lock(state_->mutex);
  state_->cluster.cluster().setListener(&listener);
  state_->hasListener = true;
}

void Allocator::offerSnapshot() {
  const base::MutexLock lock(state_->mutex);
  state_->cluster.cluster().show();
}

}  // namespace egpu::allocator
