#include "controller/allocator/allocator_state.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "api/v1alpha/pod_claims.h"
#include "api/v1alpha/remote.h"
#include "api/v1alpha/size.h"
#include "controller/scheduler/quota/parts_on.h"
#include "controller/scheduler/quota/within.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::allocator {
namespace {

constexpr std::chrono::microseconds kYieldTime{50};

/// Claims of a pod that has a node and has not ended.
std::vector<std::string> claimsInUse(const core::Pod* pod) {
  if (pod == nullptr || pod->nodeName.empty() || pod->finished()) return {};
  return v1alpha::claimNames(*pod);
}

}  // namespace

void carryOut(scheduler::Cluster& cluster, const std::string& key, const NominatedClaim& nominated,
              const std::vector<std::string>& victimUids) {
  for (const auto& card : cluster.cardsOf(nominated.nomination.nodeName))
    for (const auto& uid : victimUids) cluster.giveBack(card, uid);
  (void)takeNominated(cluster, key, nominated);
}

void ProjectedSnapshot::carryOutPending() {
  if (pending.empty()) return;
  auto after = std::make_shared<scheduler::Cluster>(*cluster);
  for (const auto& each : pending) carryOut(*after, each.key, each.nominated, each.victimUids);
  cluster = std::move(after);
  pending.clear();
}

scheduler::NodePredicate ProjectedSnapshot::open(const scheduler::NodePredicate& suits) const {
  if (closed.empty()) return suits;
  return [this, suits](std::string_view node) {
    return std::find(closed.begin(), closed.end(), node) == closed.end() && (!suits || suits(node));
  };
}

AllocatorState::AllocatorState(cache::Stores& from)
    : stores(from), cluster(from, quotas, ages, writes), nominator(from, cluster, quotas), reservations(from, cluster) {
  stores.claims.listen([this](const auto* before, const auto* after) { refreshClaim(before, after); });
  stores.nodes.listen([this](const auto* before, const auto* after) { refreshNode(before, after); });
  stores.cards.listen([this](const auto* before, const auto* after) { refreshCard(before, after); });
  stores.devices.listen(
      [this](const auto* before, const auto* after) { refreshDevice((after ? after : before)->metadata.name); });
  stores.taintRules.listen([this](const auto* before, const auto* after) { refreshTaint(before, after); });
  stores.quotas.listen([this](const auto* before, const auto* after) { refreshQuota(before, after); });
  stores.pods.listen([this](const auto* before, const auto* after) { refreshPod(before, after); });
}

void AllocatorState::yield() {
  mutex.unlock();
  std::this_thread::sleep_for(kYieldTime);
  mutex.lock();
}

void AllocatorState::refreshClaim(const cache::Claim* before, const cache::Claim* after) {
  const bool same = before && after && before->metadata.uid == after->metadata.uid;
  if (after && (after->status.nominated || (same && before->status.nominated))) refreshNomination(*after, false);
  if (before && !same && before->status.nominated) refreshNomination(*before, true);
  if (hasListener && same && before->status.usage != after->status.usage) {
    const base::MutexLock lock(mutex);
    cluster.reportUsage(after->metadata.uid);
  }
  if (!before || same) return;
  const auto& uid = before->metadata.uid;
  {
    const base::MutexLock lock(mutex);
    releaseReservations(uid);
    demand.forget(uid);
    cluster.forget(uid);
    cluster.cluster().note(ClaimGone{uid});
  }
  announce();
}

void AllocatorState::refreshPod(const core::Pod* before, const core::Pod* after) {
  if (!hasListener || claimsInUse(before) == claimsInUse(after)) return;
  const auto key = core::keyOf((after ? after : before)->metadata);
  const base::MutexLock lock(mutex);
  cluster.cluster().reportPod({key.str(), claimsInUse(stores.pods.get(key).get())});
}

void AllocatorState::refreshNomination(const cache::Claim& claim, bool isGone) {
  {
    const base::MutexLock lock(mutex);
    nominator.refresh(claim, isGone);
  }
  announce();
}

void AllocatorState::refreshNode(const core::Node* before, const core::Node* after) {
  {
    const base::MutexLock lock(mutex);
    cluster.refreshNode((after ? after : before)->metadata.name);
  }
  announce();
}

void AllocatorState::refreshCard(const cache::Gpu* before, const cache::Gpu* after) {
  if (before && after && cache::onlyUsageDiffers(*before, *after)) return;
  {
    const base::MutexLock lock(mutex);
    cluster.refreshCard((after ? after : before)->metadata.name, before);
  }
  announce();
}

void AllocatorState::refreshDevice(const std::string& name) {
  {
    const base::MutexLock lock(mutex);
    cluster.refreshDevice(name);
  }
  announce();
}

void AllocatorState::refreshTaint(const core::DeviceTaintRule* before, const core::DeviceTaintRule* after) {
  {
    const base::MutexLock lock(mutex);
    std::size_t seen = 0;
    for (const auto* rule : {before, after}) {
      if (rule == nullptr) continue;
      for (const auto& object : stores.cardsTaintedBy(*rule)) {
        cluster.refreshSchedulability(object->metadata.name);
        if (++seen % kCardsAtOnce == 0) yield();
      }
    }
  }
  announce();
}

void AllocatorState::refreshQuota(const cache::Quota* before, const cache::Quota* after) {
  const auto& namespace_ = (after ? after : before)->metadata.namespace_;
  {
    const base::MutexLock lock(mutex);
    std::vector<scheduler::Quota> all;
    for (const auto& quota : stores.quotasIn(namespace_))
      for (auto& limits : scheduler::readQuotas(*quota)) all.push_back(std::move(limits));
    quotas.setQuotas(namespace_, std::move(all));
  }
  announce();
}

std::optional<scheduler::QuotaClaim> AllocatorState::quotaClaimFor(const SchedulingRequest& ask) {
  if (quotas.empty()) return std::nullopt;
  auto namespace_ = namespaceOf(ask.claim);
  if (!quotas.counts(namespace_)) return std::nullopt;
  cluster.countForQuotas();
  return scheduler::QuotaClaim{std::move(namespace_), ask.claim, ask.claimUid, ask.className};
}

std::vector<scheduler::QuotaClaim> AllocatorState::quotaClaimsFor(const std::vector<SchedulingRequest>& asks) {
  std::vector<scheduler::QuotaClaim> claims;
  for (const auto& ask : asks)
    if (auto claim = quotaClaimFor(ask)) claims.push_back(*std::move(claim));
  return claims;
}

std::optional<scheduler::QuotaAsked> AllocatorState::askedWith(const SchedulingRequest& ask, const cache::Gpu& device) {
  auto claim = quotaClaimFor(ask);
  if (!claim) return std::nullopt;
  const auto name = "name/" + claim->name;
  scheduler::QuotaAsked asked{*std::move(claim), {}, name};
  if (v1alpha::isRemote(device)) asked.parts = remoteQuotaParts(device);
  for (std::size_t i = 0; i < device.spec.cards.size(); ++i) {
    const auto part = v1alpha::cardCharged(device, i);
    asked.parts.push_back(scheduler::quotaPartOf(cluster.cluster().findCard(part.name),
                                                 {part.chargedCore, part.chargedMemory, part.slots}));
  }
  return asked;
}

scheduler::Together AllocatorState::decideWithinQuotas(const std::vector<SchedulingRequest>& asks,
                                                       const std::vector<scheduler::Request>& requests,
                                                       const scheduler::NodePredicate& suits,
                                                       const scheduler::Pause& pause) {
  const auto claims = quotaClaimsFor(asks);  // from one pod at most: one namespace
  if (claims.empty()) return scheduler::decideTogether(cluster.cluster(), requests, suits, pause);
  auto together = scheduler::decideWithin(cluster.cluster(), quotas.book(), claims, requests, suits, pause);
  if (together.excess) quotas.noteRefused(claims.front().namespace_);
  return together;
}

std::vector<scheduler::GangMember> AllocatorState::membersOf(const std::vector<SchedulingRequest>& asks,
                                                             const std::vector<GangMemberConstraints>& places) {
  std::vector<scheduler::GangMember> members;
  for (std::size_t i = 0; i < asks.size(); ++i)
    members.push_back({asks[i].request, places[i].suits, quotaClaimFor(asks[i]), places[i].hasCapacity, places[i].with,
                       places[i].kind});
  return members;
}

ProjectedSnapshot AllocatorState::projectedSnapshot(const std::vector<SchedulingRequest>& asks) {
  const auto* const state = &cluster;
  ProjectedSnapshot projected{cluster.snapshots().snapshotOf(cluster.cluster()), {}, nominator.quotasAfter(asks)};
  nominator.eachBlocking(asks, [&projected, state](const std::string& uid, const NominatedClaim& nominated) {
    projected.pending.push_back({Nominator::nominatedKey(uid), nominated, state->uidsOf(nominated.nomination.victims)});
  });
  reservations.eachBlocking(asks, [&projected](const std::string&, const NodeReservation& reservation) {
    projected.closed.push_back(reservation.node);
  });
  return projected;
}

void AllocatorState::assume(const SchedulingRequest& ask, const scheduler::Decision& decision, bool ofGang) {
  reservations.release(ask.claimUid, true);
  quotas.releaseReservation(ask.claimUid);
  cluster.assume(ask, decision, ofGang);
}

void AllocatorState::releaseReservations(std::string_view claimUid) {
  reservations.release(claimUid);
  quotas.releaseReservation(claimUid);
}

void AllocatorState::reserveQuota(const std::vector<SchedulingRequest>& asks, const scheduler::QuotaExcess& excess) {
  for (const auto& ask : asks) reservations.release(ask.claimUid);
  if (!excess.releasesMayHelp() || !reservations.isPendingLong(asks) || !allExist(stores, asks)) return;
  const auto claims = quotaClaimsFor(asks);
  if (claims.size() != asks.size()) return;
  QuotaWaiter waiter{pendingRequestOf(asks.front()), {}, {}};
  for (const auto& ask : asks) waiter.claimUids.push_back(ask.claimUid);
  waiter.asked = scheduler::leastAsked(cluster.cluster(), claims, requestsOf(asks), excess.models);
  quotas.reserve(claims.front().namespace_, std::move(waiter), asks.front().order.now);
  noteReservations();
}

void AllocatorState::noteReservations() {
  if (!reservations.empty() || quotas.hasReservations()) hasReservations = true;
}

bool AllocatorState::hasNews() const {
  return cluster.hasFreed() || nominator.hasFreed() || reservations.hasFreed() || quotas.hasChanges();
}

bool AllocatorState::isOutdated(const QueueOrder& order) const {
  return order.releases && (*order.releases != releases || cluster.hasFreed() || nominator.hasFreed() ||
                            reservations.hasFreed() || quotas.hasFreed());
}

void AllocatorState::announce() {
  bool freed = false;
  std::vector<scheduler::QuotaBook::Change> changes;
  std::shared_ptr<const scheduler::Cluster> outdated;  // large: destroyed after unlocking
  {
    const base::MutexLock lock(mutex);
    outdated = cluster.snapshots().takeOutdated(cluster.cluster());
    for (const bool each : {cluster.takeFreed(), nominator.takeFreed(), reservations.takeFreed()})
      freed = freed || each;
    if (freed) unschedulable.clear();
    if (quotas.hasChanges()) changes = quotas.takeChanges();
    bool quotaFreed = false;
    for (const auto& change : changes)
      if (change.freed) {
        unschedulable.forgetQuotasOf(change.namespace_);
        quotaFreed = true;
      }
    if (freed || quotaFreed) ++releases;
  }
  if (freed && onCapacity) onCapacity();
  for (const auto& change : changes)
    if (onQuota) onQuota(change.namespace_, change.freed);
}

}  // namespace egpu::allocator
