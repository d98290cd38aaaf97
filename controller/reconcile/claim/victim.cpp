// (C6) the preemptor side of a single claim, and (C13) victims and moves. The victims are selected in
// priority/preemption.h; priority/group.cpp is the preemptor side of gangs and of a pod's claims.
#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/base/log.h"
#include "controller/kube/eviction.h"
#include "controller/reconcile/api_rejections.h"
#include "controller/reconcile/claim/claim.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {

/// Interval of checks whether the pods of other gang members have ended, which is no event of the claim.
constexpr milliseconds kGangMembersEnd{500};

/// True if the pod is pinned to a node by its name, as W9 pins it.
bool pinned(const core::Pod& pod) {
  if (!pod.requiredNodeAffinity) return false;
  const auto& terms = pod.requiredNodeAffinity->terms;
  return std::any_of(terms.begin(), terms.end(), [](const auto& term) {
    return std::any_of(term.matchFields.begin(), term.matchFields.end(),
                       [](const auto& field) { return field.key == "metadata.name"; });
  });
}

/// True if the pod runs, or is bound for the device's node: pinned to that node, it could not run elsewhere.
bool mustGo(const core::Pod& pod) { return alive(pod) && !gated(pod) && (!pod.nodeName.empty() || pinned(pod)); }

bool stays(const cache::Store<core::Pod>::Ptr& pod) { return !pod->metadata.deleting(); }

}  // namespace

milliseconds ClaimSync::awaitPlan(const cache::Claim& claim, const std::string& queueKey) {
  const QueueOrder order{-priorityOf(stores_, claim).value, ageOf(claim.metadata)};
  const auto wait = preemption_.delayForRateLimit(order, queueKey);
  if (wait.count() > 0) enqueue_(plansKey());
  return wait;
}

Outcome ClaimSync::givePlanTurn() {
  const auto next = preemption_.giveTurn();
  if (next.queueKey) enqueue_(*next.queueKey);
  return next.again ? Outcome::after(*next.again) : Outcome::done();
}

std::optional<milliseconds> ClaimSync::restsFromPlans(const cache::Claim& claim, const std::string& queueKey) {
  const auto rest = preemption_.searchBackoff(claim.metadata.uid);
  if (rest.count() == 0 || claim.status.nominated) return std::nullopt;
  const auto* bound = findCondition(claim.status.conditions, kBound);
  const bool told = bound != nullptr && (bound->reason == reason::kNoFit || bound->reason == reason::kQuotaExceeded) &&
                    claim.status.phase == phase::kPending;
  if (!told) return milliseconds(0);  // the reporting code respects the backoff
  const auto turn = awaitPlan(claim, queueKey);
  return turn.count() > 0 ? turn : rest;
}

std::optional<Outcome> ClaimSync::nominateVictims(const cache::Claim& claim, const ResolvedClaim& asked,
                                                  const scheduler::NodePredicate& suits, std::stop_token stop) {
  if (!asked.preempts) return std::nullopt;
  const auto queueKey = claimKey(core::keyOf(claim.metadata));
  if (const auto rest = restsFromPlans(claim, queueKey))
    return rest->count() > 0 ? std::optional(Outcome::after(*rest)) : std::nullopt;
  const auto planning = preemption_.tryLockPlanning(claim.metadata.uid);
  if (!planning) return Outcome::after(Preemption::kOthersPlan);
  if (preemption_.turns().done(claim.metadata.uid)) enqueue_(plansKey());
  const auto current = stores_.claims.get(core::keyOf(claim.metadata));  // with the nomination of the last plan
  if (!current || current->metadata.uid != claim.metadata.uid) return Outcome::done();
  const auto nomination = preemption_.planFor(current, asked.of(*current), suits, stop);
  if (!nomination) return std::nullopt;
  if (nomination->victims.empty()) return Outcome::after(Preemption::kOthersPlan);  // the last victim left just now
  auto update =
      notBound(*current, reason::kPreempting, preemption_.text({&*nomination, 1}, current->metadata.namespace_));
  update.nominated = nomination;
  const auto written = status_.say({std::move(update)}, stop);  // V1
  if (!written.ok()) return Outcome::nextState(written);
  return Outcome::after(Preemption::kHeldUpFor);
}

std::vector<ClaimSync::ClaimPtr> ClaimSync::preemptionGroup(const ClaimPtr& preemptor) const {
  if (!inGang(*preemptor)) return isDecidedByPod(stores_, *preemptor) ? chosenWith(preemptor) : std::vector{preemptor};
  const auto gang = gangOf(stores_, *preemptor);
  if (!gang) return {};
  auto members = openOf(*preemptor, *gang);
  return members.lacks.empty() && !members.oneLeaves ? std::move(members.open) : std::vector<ClaimPtr>();
}

std::vector<ClaimSync::ClaimPtr> ClaimSync::chosenWith(const ClaimPtr& claim) const {
  auto pods = stores_.podsOfClaim(core::keyOf(claim->metadata));
  std::erase_if(pods, [this](const auto& pod) { return !isConsumer(stores_, *pod); });
  if (pods.empty()) return {};
  if (pods.size() != 1) return {claim};
  return openClaimsOf(*pods.front()).value_or(std::vector<ClaimPtr>());
}

std::optional<std::vector<ClaimSync::ClaimPtr>> ClaimSync::openClaimsOf(const core::Pod& pod) const {
  if (v1alpha::pendingClaim(pod)) return std::nullopt;
  std::vector<ClaimPtr> open;
  for (const auto& name : v1alpha::claimNames(pod)) {
    const core::ObjectKey key{pod.metadata.namespace_, name};
    auto claim = stores_.claims.get(key);
    const auto carrier = claim ? nullptr : stores_.carriers.get(key);
    if (carrier && ResourceClaimBridge::isOthers(*carrier)) continue;
    if (!claim || claim->metadata.deleting()) return std::nullopt;
    if (!deviceOf(*claim)) open.push_back(std::move(claim));
  }
  return open;
}

ClaimSync::Planned ClaimSync::plannedFor(const ClaimPtr& preemptor) {
  Planned planned;
  for (const auto& each : preemptionGroup(preemptor)) {
    const auto asked = ask(*each);
    if (asked.later) return {{}, {}, true};
    if (!asked.ok() || !asked.preempts || !each->status.nominated) return {};
    planned.asks.push_back(asked.of(*each));
    planned.rooms.push_back(*each->status.nominated);
  }
  if (!planned.asks.empty()) useGroupOrder(planned.asks);
  return planned;
}

std::vector<std::string> ClaimSync::victimsFor(const ClaimPtr& preemptor) const {
  std::vector<std::string> victims;
  for (const auto& each : preemptionGroup(preemptor))
    if (const auto& room = each->status.nominated)
      victims.insert(victims.end(), room->victims.begin(), room->victims.end());
  return victims;
}

base::Result<ClaimSync::Need> ClaimSync::needFor(const cache::Claim& claim, const cache::Gpu& device,
                                                 std::stop_token stop) {
  const auto named = preemptibleClaim(stores_, device) ? preemption_.preemptorOf(device, claim) : nullptr;
  if (!named) return Need{};
  const auto key = SharedPlans::keyOf(*named);
  const auto plan = preemption_.shared().find(key);
  if (!plan) return checkNeed(claim, device, named, stop);
  const auto read = writer_.readAll({&named, 1}, stop);
  if (!read.ok()) return read;
  Need need{preemption_.preemptorOf(device, claim)};
  if (need.preemptor && SharedPlans::keyOf(*need.preemptor) != key)
    return checkNeed(claim, device, need.preemptor, stop);
  need.isNeeded = need.preemptor && plan->priority > victimGangOf(stores_, device, claim).priority &&
                  plan->needed.contains(device.metadata.name);
  return need;
}

base::Result<ClaimSync::Need> ClaimSync::checkNeed(const cache::Claim& claim, const cache::Gpu& device,
                                                   const ClaimPtr& named, std::stop_token stop) {
  Need need;
  auto& shared = preemption_.shared();
  auto key = SharedPlans::keyOf(*named);
  auto all = preemptionGroup(named);
  if (all.empty()) all.push_back(named);
  const bool many = !key.empty() && all.size() > Writer::kFewReads;
  const auto checks = many ? shared.checks() : std::unique_lock<std::mutex>();
  if (many && !checks) return Need{nullptr, false, Preemption::kOthersPlan};
  const auto generation = shared.generation();
  if (const auto read = writer_.readAll(all, std::move(stop)); !read.ok()) return read;
  need.preemptor = preemption_.preemptorOf(device, claim);
  if (!need.preemptor) return need;
  const auto planned = plannedFor(need.preemptor);
  if (planned.later) return Need{nullptr, false, kPluginBusy};
  const auto& name = device.metadata.name;
  const auto group = victimGangOf(stores_, device, claim);
  const auto priority = group.priority;
  if (!many || SharedPlans::keyOf(*need.preemptor) != key) {
    need.isNeeded = !planned.asks.empty() && planned.asks.front().turn.priority > priority &&
                    cluster_.queries().needs(planned.asks, planned.rooms, group.devices);
    return need;
  }
  SharedPlan plan;
  for (const auto& room : planned.rooms)
    plan.victims.insert(plan.victims.end(), room.victims.begin(), room.victims.end());
  if (!planned.asks.empty()) {
    plan.priority = planned.asks.front().turn.priority;
    plan.needed = cluster_.queries()
                      .neededVictims(planned.asks, planned.rooms, victimGroups(stores_))
                      .value_or(std::set<std::string>());
  }
  need.isNeeded = plan.priority > priority && plan.needed.contains(name);
  (void)shared.put(key, std::move(plan), generation);
  return need;
}

std::optional<Outcome> ClaimSync::reconcileVictim(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
  const bool marked = device->status.reason == reason::kPreempted;
  if (device->status.phase == phase::kFailed)
    return marked ? std::optional(finishEviction(*claim, *device, stop)) : std::nullopt;
  const bool moves = asksToMove(*claim, *device);
  if (!marked && !moves && stores_.claimsPreempting(device->metadata.name).empty())
    return std::nullopt;  // true for nearly all claims
  if (device->status.phase != phase::kBound || !hardwareGone(*device).empty()) return std::nullopt;
  // OBSERVATION: a claim of higher priority names the device. It is read by quorum, because the next steps are final.
  // The mark of a move did not check disruption budgets, so the preemptor's mark replaces it, unless no pod is left.
  const bool forMove = markedToMove(*device);
  const auto need = forMove && podsToGo(*claim).empty() ? base::Result<Need>(Need{}) : needFor(*claim, *device, stop);
  if (!need.ok()) return Outcome::retry(need.status());
  // After a restart all classes are validated at once: a busy plugin does not mean that the need is over.
  if (need->later.count() > 0) return Outcome::after(need->later);
  if (need->isNeeded)
    return marked && !forMove ? evictVictimPods(*claim, *device, need->preemptor, stop)
                              : markForPreemption(*claim, *device, need->preemptor, stop);
  // Once a member of its gang has released its device, all follow: the gang is useless below its size.
  if (marked && !forMove && hasLeftWithout(*claim)) return evictVictimPods(*claim, *device, nullptr, stop);
  // A pod that was ungated meanwhile would wait forever: the claim is first allocated for it.
  if (moves && !waitsForCarrier(*claim)) {
    const auto asked = movesNow(*claim, *device, stop);
    if (!asked.ok()) return Outcome::retry(asked.status());
    if (*asked) return forMove ? evictVictimPods(*claim, *device, nullptr, stop) : markMoved(*claim, *device, stop);
  }
  if (!marked) return std::nullopt;
  // The need is over: the claim keeps its device.
  return Outcome::nextState(binder_.setPhase(*device, phase::kBound, "", "", stop).status());
}

base::Result<bool> ClaimSync::movesNow(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  const auto now = writer_.read<cache::Claim>(core::keyOf(claim.metadata), claim.metadata.uid, stop);
  if (!now.ok()) return now.status();
  if (!asksToMove(*now, device)) return false;
  if (mayMove(stores_, *now, device)) return true;
  status_.warn(
      claim, reason::kNotMoved,
      "annotation " + std::string(v1alpha::keys::kMoveAnnotation) +
          " has no effect: a claim moves if its class has the parameter movable: \"true\" and reclaims with Delete, "
          "it is in no gang, and its ResourceClaim was not created by hand");
  return false;
}

Outcome ClaimSync::markMoved(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  const auto text = textOfMove(base::rfc3339(clock_.wall()));
  base::log::info("moving a claim", {{"claim", core::keyOf(claim.metadata).str()}, {"device", device.metadata.name}});
  return Outcome::nextState(binder_.setPhase(device, phase::kBound, reason::kPreempted, text, stop).status());  // V2
}

std::vector<cache::Store<core::Pod>::Ptr> ClaimSync::podsToGo(const cache::Claim& claim) const {
  auto pods = stores_.podsOfClaim(core::keyOf(claim.metadata));
  for (auto& pod : stores_.podsAnnotatedWith(core::keyOf(claim.metadata))) pods.push_back(std::move(pod));
  std::erase_if(pods, [](const auto& pod) { return !mustGo(*pod); });
  return pods;
}

bool ClaimSync::waitsForCarrier(const cache::Claim& claim) const {
  const auto carrier = stores_.carriers.get(core::keyOf(claim.metadata));
  if (carrier && !carrier->metadata.deleting() && carrier->allocation) return false;
  const auto pods = podsToGo(claim);
  return std::any_of(pods.begin(), pods.end(), [](const auto& pod) { return stays(pod) && pod->nodeName.empty(); });
}

base::Status ClaimSync::readPods(const cache::Claim& claim, std::stop_token stop) {
  for (const auto& pod : stores_.podsOfClaim(core::keyOf(claim.metadata))) {
    const auto now = writer_.read<core::Pod>(core::keyOf(pod->metadata), pod->metadata.uid, stop);
    if (!now.ok() && now.status().code() != base::Code::notFound) return now.status();
  }
  return {};
}

Outcome ClaimSync::markForPreemption(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& preemptor,
                                     std::stop_token stop) {
  const auto& who = *preemptor;
  const auto plan = preemption_.shared().find(SharedPlans::keyOf(who));
  const auto victims = plan ? plan->victims : victimsFor(preemptor);
  // Dry-runs all evictions before the first victim is marked, so that no pod is disturbed for a plan that a disruption
  // budget blocks. Later victims check only their own pods.
  const bool first = !preemption_.evictionStarted(victims);
  if (const auto rest = first ? preemption_.heldUpFor(victims) : milliseconds(0); rest.count() > 0)
    return Outcome::after(rest);  // a victim's pod is blocked, which is reported
  if (const auto no = dryRunEvictions(claim, device, who, stop)) return *no;
  if (first && plan)
    if (auto no = askBudgets(*plan, who, stop)) return *std::move(no);
  for (const auto& name : first && !plan ? victims : std::vector<std::string>{}) {
    const auto other = name == device.metadata.name ? nullptr : stores_.devices.get({"", name});
    const auto holder = other ? preemptibleClaim(stores_, *other) : nullptr;
    if (!holder) continue;
    if (const auto no = dryRunEvictions(*holder, *other, who, stop)) return *no;
  }
  // The time distinguishes this mark from others: V4 reports this one.
  const auto text = preemption_.textFor(who, claim.metadata.namespace_) + " since " + base::rfc3339(clock_.wall());
  base::log::info("preempting a claim", {{"claim", core::keyOf(claim.metadata).str()},
                                         {"device", device.metadata.name},
                                         {"for", core::keyOf(who.metadata).str()}});
  return Outcome::nextState(binder_.setPhase(device, phase::kBound, reason::kPreempted, text, stop).status());  // V2
}

std::optional<Outcome> ClaimSync::askBudgets(const SharedPlan& plan, const cache::Claim& who, std::stop_token stop) {
  auto& asked = *plan.budgetsAsked;
  const auto batch = asked.next();
  if (!batch) return asked.allDone() ? std::nullopt : std::optional(Outcome::after(Preemption::kOthersPlan));
  for (std::size_t i = batch->from; i < batch->to; ++i) {
    const auto other = stores_.devices.get({"", plan.victims[i]});
    const auto holder = other ? preemptibleClaim(stores_, *other) : nullptr;
    if (!holder) continue;
    if (auto no = dryRunEvictions(*holder, *other, who, stop)) {
      asked.startOver();
      return no;
    }
  }
  asked.done(*batch);
  return asked.allDone() ? std::nullopt : std::optional(Outcome::requeueNow());
}

std::optional<Outcome> ClaimSync::dryRunEvictions(const cache::Claim& claim, const cache::Gpu& device,
                                                  const cache::Claim& who, std::stop_token stop) {
  for (const auto& pod : podsToGo(claim)) {
    if (pod->metadata.deleting()) continue;
    if (auto no = evict(*pod, true, device, who, stop)) return no;
  }
  return std::nullopt;
}

std::optional<Outcome> ClaimSync::evict(const core::Pod& pod, bool dry, const cache::Gpu& device,
                                        const cache::Claim& who, std::stop_token stop) {
  const auto answer = writer_.client().call(kube::evictionOf(pod, dry), stop);  // V3
  if (answer.ok()) {
    if (!dry) status_.event(pod, reason::kPreempted, device.status.message);
    return std::nullopt;
  }
  const auto& status = answer.status();
  if (status.code() == base::Code::notFound || status.code() == base::Code::conflict) {
    const auto now = writer_.read<core::Pod>(core::keyOf(pod.metadata), pod.metadata.uid, stop);
    return Outcome::requeueNow();
  }
  // 429: one disruption budget; 500: two budgets; other refusals: an admission policy.
  if (status.code() != base::Code::throttled && !ApiRejections::isRefusal(status) && !ApiRejections::isFailure(status))
    return Outcome::retry(status);
  preemption_.blockedByBudget(
      device.metadata.name, "pod " + core::keyOf(pod.metadata).str() + " may not be evicted now: " + status.message());
  enqueue_(claimKey(core::keyOf(who.metadata)));
  return Outcome::after(Preemption::kHeldUpFor);
}

bool ClaimSync::hasLeftWithout(const cache::Claim& claim) const {
  const auto gang = gangOfHolder(stores_, claim);
  if (!gang) return false;
  const auto all = stores_.claimsOfGang(gang->namespace_, gang->name);
  return std::any_of(all.begin(), all.end(), [&](const auto& each) {
    if (each->metadata.uid == claim.metadata.uid || gangNamedBy(*each) != gang) return false;
    const auto own = deviceOf(*each);
    const bool keeps = own && own->status.phase != phase::kFailed;
    return !keeps && findCondition(each->status.conditions, kPreempted) != nullptr;
  });
}

bool ClaimSync::awaitsGang(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& preemptor) const {
  const auto gang = gangOfHolder(stores_, claim);
  if (!gang) return false;
  for (const auto& name : victimsFor(preemptor)) {
    const auto other = name == device.metadata.name ? nullptr : stores_.devices.get({"", name});
    const auto holder = other ? preemptibleClaim(stores_, *other) : nullptr;
    if (!holder || gangNamedBy(*holder) != gang) continue;
    if (other->status.reason != reason::kPreempted || !podsToGo(*holder).empty() || reserved(*holder)) return true;
  }
  return false;
}

Outcome ClaimSync::evictVictimPods(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& preemptor,
                                   std::stop_token stop) {
  const auto pods = podsToGo(claim);
  if (!preemptor && std::any_of(pods.begin(), pods.end(), stays))
    return Outcome::done();  // a move waits for its pods; no gated pod is added while the device is marked
  // First deletes the ResourceClaim, so that no pod can reserve it: neither the present pods nor ungated ones that
  // replace them.
  const auto carrier = carrier_.release(core::keyOf(claim.metadata), claim.metadata.uid, device.metadata.name, stop);
  if (carrier.state == ResourceClaimBridge::Release::failed) return Outcome::retry(carrier.error);
  for (const auto& pod : pods) {
    if (pod->metadata.deleting()) continue;
    if (const auto no = evict(*pod, false, device, *preemptor, stop)) return *no;
    const auto now = writer_.read<core::Pod>(core::keyOf(pod->metadata), pod->metadata.uid, stop);
    if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
    return Outcome::requeueNow();  // the need is checked again before the next eviction
  }
  // The end of its pods, and of their reservations, is an event.
  if (carrier.state == ResourceClaimBridge::Release::inUse || !pods.empty()) return Outcome::done();
  const auto used = inUse(claim, device, stop);
  if (!used.ok()) return Outcome::retry(used.status());
  if (*used) return Outcome::done();
  // Members of one gang release their devices only after the pods of all of them have ended.
  if (preemptor && awaitsGang(claim, device, preemptor)) return Outcome::after(kGangMembersEnd);
  // The next write is final. A pod may have been ungated (W9) by a step that saw the device before its mark.
  if (const auto read = readPods(claim, stop); !read.ok()) return Outcome::retry(read);
  if (!podsToGo(claim).empty()) return Outcome::requeueNow();
  const auto& why = device.status.message;
  const auto* told = findCondition(claim.status.conditions, kPreempted);
  if (claim.status.phase != phase::kPending || told == nullptr || told->message != why)
    return Outcome::requeueNow().reports(ConditionUpdate::of(claim.metadata, ConditionUpdate::As::preempted,
                                                             markedToMove(device) ? reason::kMoved : reason::kPreempted,
                                                             why));                                             // V4
  return Outcome::nextState(binder_.setPhase(device, phase::kFailed, reason::kPreempted, why, stop).status());  // V5
}

Outcome ClaimSync::finishEviction(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  // The status shows the requests of this device, in case it stays. The next device is made for the requests in the
  // spec.
  const auto* bound = findCondition(claim.status.conditions, kBound);
  if (!claim.status.requests.empty() && bound != nullptr && claim.status.phase == phase::kPending)
    return Outcome::requeueNow().reports(notBound(claim, bound->reason, bound->message));
  if (device.metadata.deleting()) return Outcome::done();  // its last event requeues the claim
  const auto removed = writer_.remove(device, stop);       // V6
  return removed.ok() ? Outcome::done() : Outcome::retry(removed);
}

}  // namespace egpu::reconcile
