#include "controller/reconcile/priority/victim.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/base/log.h"
#include "controller/kube/eviction.h"
#include "controller/reconcile/api_rejections.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/claim/quorum_reads.h"
#include "controller/reconcile/claim/release.h"
#include "controller/reconcile/device/lost_cards.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {

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
bool mustEnd(const core::Pod& pod) { return alive(pod) && !gated(pod) && (!pod.nodeName.empty() || pinned(pod)); }

bool stays(const cache::Store<core::Pod>::Ptr& pod) { return !pod->metadata.deleting(); }

}  // namespace

VictimSync::Planned VictimSync::plannedFor(const ClaimPtr& preemptor) {
  Planned planned;
  for (const auto& each : preemptor_.preemptionGroup(preemptor)) {
    const auto asked = resolver_.resolve(*each);
    if (asked.later) return {{}, {}, true};
    if (!asked.ok() || !asked.preempts || !each->status.nominated) return {};
    planned.asks.push_back(asked.of(*each));
    planned.nominations.push_back(*each->status.nominated);
  }
  if (!planned.asks.empty()) useGroupOrder(planned.asks);
  return planned;
}

std::vector<std::string> VictimSync::victimsFor(const ClaimPtr& preemptor) const {
  std::vector<std::string> victims;
  for (const auto& each : preemptor_.preemptionGroup(preemptor))
    if (const auto& nomination = each->status.nominated)
      victims.insert(victims.end(), nomination->victims.begin(), nomination->victims.end());
  return victims;
}

base::Result<VictimSync::Need> VictimSync::needFor(const cache::Claim& claim, const cache::Gpu& device,
                                                   std::stop_token stop) {
  const auto named =
      preemptibleClaim(context_.stores, device) ? preemptor_.preemption().preemptorOf(device, claim) : nullptr;
  if (!named) return Need{};
  const auto key = SharedPlans::keyOf(*named);
  const auto plan = preemptor_.preemption().shared().find(key);
  if (!plan) return checkNeed(claim, device, named, stop);
  Need need{named};
  need.isNeeded = plan->priority > victimGangOf(context_.stores, device, claim).priority &&
                  plan->needed.contains(device.metadata.name);
  return need;
}

base::Result<VictimSync::Need> VictimSync::checkNeed(const cache::Claim& claim, const cache::Gpu& device,
                                                     const ClaimPtr& named, std::stop_token stop) {
  auto all = preemptor_.preemptionGroup(named);
  if (all.empty()) all.push_back(named);
  if (!SharedPlans::keyOf(*named).empty() && all.size() > Writer::kFewReads) {
    const auto checks = preemptor_.preemption().shared().checks();
    return checks ? checkSharedPlan(claim, device, named, all, std::move(stop))
                  : Need{nullptr, false, context_.timeouts.planInterval};
  }
  if (const auto read = context_.writer.readAll(all, std::move(stop)); !read.ok()) return read;
  Need need{preemptor_.preemption().preemptorOf(device, claim)};
  if (!need.preemptor) return need;
  const auto planned = plannedFor(need.preemptor);
  if (planned.later) return Need{nullptr, false, context_.timeouts.busyPluginInterval};
  const auto group = victimGangOf(context_.stores, device, claim);
  need.isNeeded = !planned.asks.empty() && planned.asks.front().order.priority > group.priority &&
                  context_.cluster.queries().needs(planned.asks, planned.nominations, group.devices);
  return need;
}

base::Result<VictimSync::Need> VictimSync::checkSharedPlan(const cache::Claim& claim, const cache::Gpu& device,
                                                           const ClaimPtr& named, const std::vector<ClaimPtr>& all,
                                                           std::stop_token stop) {
  auto& shared = preemptor_.preemption().shared();
  const auto key = SharedPlans::keyOf(*named);
  const auto generation = shared.generation();
  const auto updated = updateMembers(key, all, std::move(stop));
  if (!updated.ok()) return updated.status();
  if (!*updated) return Need{nullptr, false, context_.timeouts.busyPluginInterval};
  Need need{preemptor_.preemption().preemptorOf(device, claim)};
  if (!need.preemptor) return need;
  if (SharedPlans::keyOf(*need.preemptor) != key) return Need{nullptr, false, context_.timeouts.busyPluginInterval};
  const auto planned = plannedFor(need.preemptor);
  if (planned.later) return Need{nullptr, false, context_.timeouts.busyPluginInterval};
  SharedPlan plan;
  for (const auto& nomination : planned.nominations)
    plan.victims.insert(plan.victims.end(), nomination.victims.begin(), nomination.victims.end());
  if (!planned.asks.empty()) {
    plan.priority = planned.asks.front().order.priority;
    plan.needed = context_.cluster.queries()
                      .neededVictims(planned.asks, planned.nominations, victimGroups(context_.stores))
                      .value_or(std::set<std::string>());
  }
  need.isNeeded = plan.priority > victimGangOf(context_.stores, device, claim).priority &&
                  plan.needed.contains(device.metadata.name);
  (void)shared.put(key, std::move(plan), generation);
  return need;
}

base::Result<bool> VictimSync::updateMembers(const std::string& key, const std::vector<ClaimPtr>& all,
                                             std::stop_token stop) {
  auto& shared = preemptor_.preemption().shared();
  auto awaited = shared.awaited(key);
  if (!awaited) {
    const auto version = context_.writer.currentVersion(*all.front(), stop);
    if (!version.ok()) return version.status();
    shared.await(key, *version);
    awaited = shared.awaited(key);
  }
  if (context_.stores.claims.version() < awaited->version) {
    // Claims that do not change produce no event until the next bookmark. The list takes seconds in a large namespace,
    // so each step reads one page.
    auto& listing = awaited->listing;
    if (!listing && context_.clock.now() - awaited->since < context_.timeouts.planVersionTimeout) return false;
    if (!listing) listing.emplace(all);
    const auto last = context_.writer.readPage(*listing, std::move(stop));
    if (!last.ok()) return last.status();
    if (!*last) {
      shared.await(key, awaited->version, std::move(listing));
      return false;
    }
  }
  shared.endAwait(key);
  return true;
}

std::optional<Outcome> VictimSync::reconcile(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
  const bool marked = device->status.reason == reason::kPreempted;
  if (device->status.phase == phase::kFailed)
    return marked ? std::optional(removeFailedDevice(context_, *claim, *device, stop)) : std::nullopt;
  const bool moves = asksToMove(*claim, *device);
  if (!marked && !moves && context_.stores.claimsPreempting(device->metadata.name).empty())
    return std::nullopt;  // true for nearly all claims
  if (device->status.phase != phase::kBound || !lostCards(context_.stores, *device).empty()) return std::nullopt;
  // A claim of higher priority names the device. It is read by quorum, because the next steps are final.
  // The mark of a move did not check disruption budgets, so the preemptor's mark replaces it, unless no pod is left.
  const bool forMove = markedToMove(*device);
  const auto need =
      forMove && podsToEvict(*claim).empty() ? base::Result<Need>(Need{}) : needFor(*claim, *device, stop);
  if (!need.ok()) return Outcome::retry(need.status());
  // After a restart all classes are validated at once: a busy plugin does not mean that the need is over.
  if (need->later.count() > 0) return Outcome::after(need->later);
  if (need->isNeeded)
    return marked && !forMove ? evictPods(*claim, *device, need->preemptor, stop)
                              : markForPreemption(*claim, *device, need->preemptor, stop);
  // Once a member of its gang has released its device, all follow: the gang is useless below its size.
  if (marked && !forMove && hasMemberReleased(*claim)) return evictPods(*claim, *device, nullptr, stop);
  // A pod that was ungated meanwhile would wait forever: the claim is first allocated for it.
  if (moves && !awaitsAllocation(*claim)) {
    const auto asked = movesNow(*claim, *device, stop);
    if (!asked.ok()) return Outcome::retry(asked.status());
    if (*asked) return forMove ? evictPods(*claim, *device, nullptr, stop) : markForMove(*claim, *device, stop);
  }
  if (!marked) return std::nullopt;
  // The need is over: the claim keeps its device.
  return Outcome::nextState(context_.binder.setPhase(*device, phase::kBound, "", "", stop).status());
}

base::Result<bool> VictimSync::movesNow(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  const auto now = context_.writer.read<cache::Claim>(core::keyOf(claim.metadata), claim.metadata.uid, stop);
  if (!now.ok()) return now.status();
  if (!asksToMove(*now, device)) return false;
  if (mayMove(context_.stores, *now, device)) return true;
  context_.status.warn(
      claim, reason::kNotMoved,
      "annotation " + std::string(v1alpha::keys::kMoveAnnotation) +
          " has no effect: a claim moves if its class has the parameter movable: \"true\" and reclaims with Delete, "
          "it is in no gang, and its ResourceClaim was not created by hand");
  return false;
}

Outcome VictimSync::markForMove(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  const auto text = textOfMove(base::rfc3339(context_.clock.wall()));
  base::log::info("moving a claim", {{"claim", core::keyOf(claim.metadata).str()}, {"device", device.metadata.name}});
  return Outcome::nextState(
      context_.binder.setPhase(device, phase::kBound, reason::kPreempted, text, stop).status());  // V2
}

std::vector<cache::Store<core::Pod>::Ptr> VictimSync::podsToEvict(const cache::Claim& claim) const {
  auto pods = context_.stores.podsOfClaim(core::keyOf(claim.metadata));
  for (auto& pod : context_.stores.podsAnnotatedWith(core::keyOf(claim.metadata))) pods.push_back(std::move(pod));
  std::erase_if(pods, [](const auto& pod) { return !mustEnd(*pod); });
  return pods;
}

bool VictimSync::awaitsAllocation(const cache::Claim& claim) const {
  const auto resourceClaim = context_.stores.resourceClaims.get(core::keyOf(claim.metadata));
  if (resourceClaim && !resourceClaim->metadata.deleting() && resourceClaim->allocation) return false;
  const auto pods = podsToEvict(claim);
  return std::any_of(pods.begin(), pods.end(), [](const auto& pod) { return stays(pod) && pod->nodeName.empty(); });
}

Outcome VictimSync::markForPreemption(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& preemptor,
                                      std::stop_token stop) {
  const auto plan = preemptor_.preemption().shared().last(SharedPlans::keyOf(*preemptor));
  const auto victims = plan ? plan->victims : victimsFor(preemptor);
  // Dry-runs all evictions before the first victim is marked, so that no pod is disturbed for a plan that a disruption
  // budget blocks. Later victims check only their own pods.
  const bool first = !preemptor_.preemption().evictionStarted(victims);
  if (const auto rest = first ? preemptor_.preemption().heldUpFor(victims) : milliseconds(0); rest.count() > 0)
    return Outcome::after(rest);  // a victim's pod is blocked, which is reported
  if (const auto no = dryRunEvictions(claim, device, *preemptor, stop)) return *no;
  if (first && plan)
    if (auto no = dryRunBatch(*plan, *preemptor, stop)) return *std::move(no);
  for (const auto& name : first && !plan ? victims : std::vector<std::string>{}) {
    const auto other = name == device.metadata.name ? nullptr : context_.stores.devices.get({"", name});
    const auto holder = other ? preemptibleClaim(context_.stores, *other) : nullptr;
    if (!holder) continue;
    if (const auto no = dryRunEvictions(*holder, *other, *preemptor, stop)) return *no;
  }
  // The time distinguishes this mark from others: V4 reports this one.
  const auto text = preemptor_.preemption().textFor(*preemptor, claim.metadata.namespace_) + " since " +
                    base::rfc3339(context_.clock.wall());
  base::log::info("preempting a claim", {{"claim", core::keyOf(claim.metadata).str()},
                                         {"device", device.metadata.name},
                                         {"for", core::keyOf(preemptor->metadata).str()}});
  return Outcome::nextState(
      context_.binder.setPhase(device, phase::kBound, reason::kPreempted, text, stop).status());  // V2
}

std::optional<Outcome> VictimSync::dryRunBatch(const SharedPlan& plan, const cache::Claim& preemptor,
                                               std::stop_token stop) {
  auto& asked = *plan.budgetsAsked;
  const auto batch = asked.next();
  if (!batch) return asked.allDone() ? std::nullopt : std::optional(Outcome::after(context_.timeouts.planInterval));
  for (std::size_t i = batch->from; i < batch->to; ++i) {
    const auto other = context_.stores.devices.get({"", plan.victims[i]});
    const auto holder = other ? preemptibleClaim(context_.stores, *other) : nullptr;
    if (!holder) continue;
    if (auto no = dryRunEvictions(*holder, *other, preemptor, stop)) {
      asked.startOver();
      return no;
    }
  }
  asked.done(*batch);
  return asked.allDone() ? std::nullopt : std::optional(Outcome::requeueNow());
}

std::optional<Outcome> VictimSync::dryRunEvictions(const cache::Claim& claim, const cache::Gpu& device,
                                                   const cache::Claim& preemptor, std::stop_token stop) {
  for (const auto& pod : podsToEvict(claim)) {
    if (pod->metadata.deleting()) continue;
    if (auto no = evict(*pod, true, device, preemptor, stop)) return no;
  }
  return std::nullopt;
}

std::optional<Outcome> VictimSync::evict(const core::Pod& pod, bool dry, const cache::Gpu& device,
                                         const cache::Claim& preemptor, std::stop_token stop) {
  const auto answer = context_.writer.client().call(kube::evictionOf(pod, dry), stop);  // V3
  if (answer.ok()) {
    if (!dry) context_.status.warn(pod, reason::kPreempted, device.status.message);
    return std::nullopt;
  }
  const auto& status = answer.status();
  if (status.code() == base::Code::notFound || status.code() == base::Code::conflict) {
    const auto now = context_.writer.read<core::Pod>(core::keyOf(pod.metadata), pod.metadata.uid, stop);
    return Outcome::requeueNow();
  }
  // 429: one disruption budget; 500: two budgets; other refusals: an admission policy.
  if (status.code() != base::Code::throttled && !ApiRejections::isRefusal(status) && !ApiRejections::isFailure(status))
    return Outcome::retry(status);
  preemptor_.preemption().blockedByBudget(
      device.metadata.name, "pod " + core::keyOf(pod.metadata).str() + " may not be evicted now: " + status.message());
  context_.enqueue(claimKey(core::keyOf(preemptor.metadata)));
  return Outcome::after(context_.timeouts.preemptionRetryBackoff);
}

bool VictimSync::hasMemberReleased(const cache::Claim& claim) const {
  const auto gang = gangOfHolder(context_.stores, claim);
  if (!gang) return false;
  const auto all = context_.stores.claimsOfGang(gang->namespace_, gang->name);
  return std::any_of(all.begin(), all.end(), [&](const auto& each) {
    if (each->metadata.uid == claim.metadata.uid || gangNamedBy(*each) != gang) return false;
    const auto own = deviceOf(context_.stores, *each);
    const bool exists = own && own->status.phase != phase::kFailed;
    return !exists && findCondition(each->status.conditions, kPreempted) != nullptr;
  });
}

bool VictimSync::awaitsMembers(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& preemptor) const {
  const auto gang = gangOfHolder(context_.stores, claim);
  if (!gang) return false;
  for (const auto& name : victimsFor(preemptor)) {
    const auto other = name == device.metadata.name ? nullptr : context_.stores.devices.get({"", name});
    const auto holder = other ? preemptibleClaim(context_.stores, *other) : nullptr;
    if (!holder || gangNamedBy(*holder) != gang) continue;
    if (other->status.reason != reason::kPreempted || !podsToEvict(*holder).empty() ||
        isReservedForPod(context_.stores, *holder))
      return true;
  }
  return false;
}

Outcome VictimSync::evictPods(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& preemptor,
                              std::stop_token stop) {
  const auto pods = podsToEvict(claim);
  if (!preemptor && std::any_of(pods.begin(), pods.end(), stays))
    return Outcome::done();  // a move waits for its pods; no gated pod is added while the device is marked
  const auto& why = device.status.message;
  const auto* reported = findCondition(claim.status.conditions, kPreempted);
  const bool isReported = claim.status.phase == phase::kPending && reported != nullptr && reported->message == why;
  const auto report = [&] {
    return Outcome::requeueNow().reports(ConditionUpdate::of(claim.metadata, ConditionUpdate::As::preempted,
                                                             markedToMove(device) ? reason::kMoved : reason::kPreempted,
                                                             why));  // V4
  };
  // V4 can be undone: the cache suffices. The reads that V5 needs are made once, after it.
  const auto key = core::keyOf(claim.metadata);
  const bool seemsUnused = pods.empty() && !context_.stores.resourceClaims.get(key) && !context_.users.isInUse(key);
  if (!isReported && seemsUnused && !(preemptor && awaitsMembers(claim, device, preemptor))) return report();
  // First deletes the ResourceClaim, so that no pod can reserve it: neither the present pods nor ungated ones that
  // replace them.
  const auto resourceClaim = context_.bridge.release(key, claim.metadata.uid, device.metadata.name, stop);
  if (resourceClaim.state == ResourceClaimBridge::Release::failed) return Outcome::retry(resourceClaim.error);
  for (const auto& pod : pods) {
    if (pod->metadata.deleting()) continue;
    if (const auto no = evict(*pod, false, device, *preemptor, stop)) return *no;
    const auto now = context_.writer.read<core::Pod>(core::keyOf(pod->metadata), pod->metadata.uid, stop);
    if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
    return Outcome::requeueNow();  // the need is checked again before the next eviction
  }
  // The end of its pods, and of their reservations, requeues the claim.
  if (resourceClaim.state == ResourceClaimBridge::Release::inUse || !pods.empty()) return Outcome::done();
  const auto used = context_.users.isInUseNow(key, device.spec.nodeName, stop);
  if (!used.ok()) return Outcome::retry(used.status());
  if (*used) return Outcome::done();
  // Members of one gang release their devices only after the pods of all of them have ended.
  if (preemptor && awaitsMembers(claim, device, preemptor))
    return Outcome::after(context_.timeouts.shortRecheckInterval);
  // The next write is final. A pod may have been ungated (W9) by a step that saw the device before its mark.
  if (const auto read = readPodsOf(context_, claim, stop); !read.ok()) return Outcome::retry(read);
  if (!podsToEvict(claim).empty()) return Outcome::requeueNow();
  if (!isReported) return report();
  return Outcome::nextState(
      context_.binder.setPhase(device, phase::kFailed, reason::kPreempted, why, stop).status());  // V5
}

}  // namespace egpu::reconcile
