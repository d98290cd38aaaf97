#include "controller/reconcile/pod/placement.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/remote.h"
#include "controller/reconcile/api_rejections.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/pod/node_fit/resources.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/queue_key.h"
#include "controller/scheduler/first_available.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {
constexpr std::size_t kMaxNodesUnderLock = 256;  ///< nodes to evaluate while other decisions are blocked

/// The shortest of several requeue delays; ignores delays of zero.
class Soonest {
 public:
  void add(milliseconds time) {
    if (time.count() > 0) first_ = first_.count() > 0 ? std::min(first_, time) : time;
  }
  Outcome outcome() const { return first_.count() > 0 ? Outcome::after(first_) : Outcome::done(); }

 private:
  milliseconds first_{0};
};

/// False if the quota limits each claim, and only other claims exceed it.
bool exceeds(const scheduler::QuotaExcess& excess, const cache::Claim& claim) {
  if (!excess.perClaim) return true;
  return std::any_of(excess.asked.begin(), excess.asked.end(), [&](const auto& asked) {
    const auto wants = scheduler::quotaAmounts(asked.parts, excess.models, excess.profile);
    return asked.claim.id == claim.metadata.uid && wants[static_cast<std::size_t>(excess.key)] > excess.limit;
  });
}
}  // namespace

std::optional<PodPlacement::Choice> PodPlacement::choiceOf(const core::Pod& pod, const std::vector<UsedClaim>& used,
                                                           Outcome* outcome) {
  Choice choice;
  choice.node = pod.nodeName;
  const auto because = [&](const std::string& why) {
    *outcome = Outcome::done().reports(waitReports(pod, used, why));
    return std::nullopt;
  };
  for (const auto& one : used) {
    const auto& name = one.claim->metadata.name;
    if (one.device && v1alpha::isOnAnyNode(*one.device)) {
      if (one.device->status.phase != phase::kBound) return because(waitText(pod, "claim " + name));
      continue;
    }
    if (one.device) {
      const auto& device = *one.device;
      if (device.metadata.deleting()) return std::nullopt;  // its deletion requeues the pod
      if (!choice.node.empty() && device.spec.nodeName != choice.node)
        return because("pod " + pod.metadata.name + " is on node " + choice.node + ", its claim " + name + " on node " +
                       device.spec.nodeName);
      choice.node = device.spec.nodeName;
      choice.fixedBy = name;
      continue;
    }
    // The claim's own step binds an existing device, reports a refusal, or decides without the pod. It wakes the pod
    // then.
    if (takesDevice(context_.stores, *one.claim)) return because(waitText(pod, "claim " + name));
    const auto& uid = one.claim->metadata.uid;
    auto ask = parts_.resolver.resolve(*one.claim);
    if (ask.later) {
      *outcome = Outcome::after(context_.timeouts.busyPluginInterval);
      return std::nullopt;
    }
    if (!ask.ok() || !isDecidedByPod(context_.stores, *one.claim) ||
        !context_.waiting.provisioners.refusal(uid).empty())
      return because(waitText(pod, "claim " + name));
    choice.wait = std::max(choice.wait, context_.waiting.nodes.untilNextChoice(uid));
    choice.asks.push_back(ask.of(*one.claim));
    choice.asked.push_back(std::move(ask));
    choice.open.push_back(&one);
  }
  if (!choice.node.empty())  // so that the node is looked up instead of searched for
    for (auto& ask : choice.asks) ask.request.pinnedNode = choice.node;
  return choice;
}

Outcome PodPlacement::reconcile(const core::Pod& pod, const std::vector<UsedClaim>& used, std::stop_token stop) {
  removeNodeResourceWait(core::keyOf(pod.metadata));
  auto outcome = Outcome::done();
  if (const auto* claim = chosenByOthers(pod, used)) return awaitRound(pod, used, *claim);
  if (gated(pod))
    if (auto apart = claimsOnDifferentNodes(pod, used)) {
      const auto open = waitReports(pod, used, apart->updates.front().message);
      apart->updates.insert(apart->updates.end(), open.begin(), open.end());
      return *std::move(apart);
    }
  auto choice = choiceOf(pod, used, &outcome);
  if (!choice) return outcome;
  const bool chosen =
      !context_.waiting.chosen.nodeOf(pod).empty();  // by another scheduler, which has a backoff of its own
  if (choice->wait.count() > 0 && !chosen) return Outcome::after(choice->wait);
  auto volumes = context_.volumes.of(pod, stop);
  if (!volumes.ok()) return Outcome::retry(volumes.status());
  NodeChoice nodes(context_.stores, pod, std::move(*volumes), choice->node, [&](std::string_view name) {
    return std::any_of(choice->asks.begin(), choice->asks.end(), [&](const auto& ask) {
      return context_.waiting.nodes.rejected(ask.claimUid, name) ||
             context_.waiting.nodes.wasRefusedOn(ask.claimUid, name);
    });
  });
  // Before the search, so that capacity released from now on requeues the pod.
  if (!awaitCapacity(pod, *choice) && !chosen) return Outcome::after(context_.timeouts.queueYieldTimeout);
  auto tried = decideFirst(*choice, nodes);
  auto& together = tried.together;
  if (together.decisions.empty() && forgetRefusedNodes(choice->asks)) tried = decideFirst(*choice, nodes);
  using DecisionResult = UnschedulableQueue::DecisionResult;
  const bool isOutdated =
      together.decisions.empty() && !choice->asks.empty() && context_.cluster.isOutdated(choice->asks.front().order);
  const auto found = isOutdated                   ? DecisionResult::unknown
                     : together.decisions.empty() ? DecisionResult::nothing
                                                  : DecisionResult::capacity;
  if (context_.waiting.unschedulable.decided(podKey(core::keyOf(pod.metadata)), found)) context_.enqueue(capacityKey());
  if (isOutdated) return Outcome::requeueNow();
  if (together.decisions.empty()) {
    if (!tried.firstOverQuota && !together.excess) reserveNode(*choice, nodes);
    return notifyBinder(pod, noneFits(pod, used, *choice, together, nodes, stop));
  }
  removeNodeResourceWait(core::keyOf(pod.metadata));
  if (!nodes.promise(together.decisions.front().node)) {  // another pod has taken the capacity meanwhile
    for (const auto& ask : choice->asks) context_.cluster.forget(ask.claimUid);
    return Outcome::requeueNow();
  }
  context_.waiting.remove(podKey(core::keyOf(pod.metadata)));
  return writeIntents(pod, *choice, together.decisions, stop);
}

const cache::Claim* PodPlacement::chosenByOthers(const core::Pod& pod, const std::vector<UsedClaim>& used) {
  if (!context_.waiting.chosen.nodeOf(pod).empty()) return nullptr;  // a scheduler waits for the answer
  for (const auto& one : used)
    if (!one.device && isDecidedByPod(context_.stores, *one.claim) &&
        !context_.waiting.consumers.chooses(context_.stores, *one.claim, pod))
      return one.claim.get();
  return nullptr;
}

Outcome PodPlacement::awaitRound(const core::Pod& pod, const std::vector<UsedClaim>& used, const cache::Claim& claim) {
  const auto& name = claim.metadata.name;
  const auto* bound = findCondition(claim.status.conditions, kBound);
  if (bound == nullptr || bound->reason == reason::kWaitingForConsumer)  // else PodEvents reports the reason
    events_.reportClaim(pod, name, reason::kWaitingForConsumer,
                        "older or equal pods that use it choose its node first");
  return Outcome::done().reports(waitReports(pod, used, waitText(pod, "claim " + name)));
}

void PodPlacement::reserveNode(const Choice& choice, NodeChoice& nodes) {
  context_.cluster.reserveNodeFor(
      choice.asks, [&nodes](std::string_view name) { return nodes.suits(name); },
      [&nodes](std::string_view name) { return nodes.suitsOnceFree(name); });
}

Outcome PodPlacement::notifyBinder(const core::Pod& pod, Outcome outcome) {
  if (const auto node = context_.waiting.chosen.nodeOf(pod); !node.empty())
    context_.waiting.chosen.refuse(core::keyOf(pod.metadata),
                                   "no capacity for the pod's claims on node " + node +
                                       (outcome.updates.empty() ? "" : ": " + outcome.updates.front().message));
  return outcome;
}

bool PodPlacement::awaitCapacity(const core::Pod& pod, Choice& choice) {
  const auto key = core::keyOf(pod.metadata);
  const auto priority = choice.asks.empty() ? 0 : choice.asks.front().order.priority;
  auto needs = choice.asks.empty() ? CapacityNeeds() : needsOf(*choice.open.front()->claim, choice.asked.front());
  const auto admission =
      context_.waiting.unschedulable.add(podKey(key), ageOf(pod.metadata), priority, std::move(needs));
  for (auto& asked : choice.asked) asked.order.releases = admission.releases;
  for (auto& ask : choice.asks) ask.order.releases = admission.releases;
  const base::MutexLock lock(mutex_);
  podsWaitingForNodeResources_[key] = {ageOf(pod.metadata), cache::requestsOf(pod)};
  return admission.isGranted;
}

Outcome PodPlacement::overQuota(const core::Pod& pod, const std::vector<UsedClaim>& used, const Choice& choice,
                                const scheduler::QuotaExcess& excess) {
  const auto counts = choice.open.size() > 1 ? GroupUsage::some : GroupUsage::nobody;
  context_.cluster.reserveQuotaFor(choice.asks, excess);
  Soonest next;
  std::vector<ConditionUpdate> updates;
  std::vector<const UsedClaim*> within;
  std::string exceeding;
  for (const auto* one : choice.open) {
    const auto& claim = *one->claim;
    if (!exceeds(excess, claim)) {
      within.push_back(one);
      continue;
    }
    exceeding += (exceeding.empty() ? "claim " : ", claim ") + claim.metadata.name;
    if (olderPodReports(pod, claim) || plannedByAnother(pod, choice, claim)) continue;
    const auto outcome = parts_.report.overQuota(claim, excess, {}, counts);
    updates.insert(updates.end(), outcome.updates.begin(), outcome.updates.end());
    next.add(outcome.delay);
  }
  addWaitReports(pod, within, waitText(pod, exceeding), updates);
  // A node whose backoff ends may have cards that the quota does not count.
  for (const auto& one : used) next.add(context_.waiting.nodes.untilNextNode(one.claim->metadata.uid));
  return next.outcome().reports(std::move(updates));
}

Outcome PodPlacement::noneFits(const core::Pod& pod, const std::vector<UsedClaim>& used, const Choice& choice,
                               const scheduler::Together& together, NodeChoice& nodes, std::stop_token stop) {
  bool anyShort = nodes.anyShort();
  // Claims that are fixed by an intent of the same pod may fit elsewhere together.
  const auto started =
      choice.fixedBy.empty() ? std::nullopt : colocation_.rescheduleTogether(pod, used, &anyShort, stop);
  if (!anyShort) removeNodeResourceWait(core::keyOf(pod.metadata));
  if (started) return *started;
  const auto& excess = together.excess;
  if (!excess || excess->releasesMayHelp())
    if (auto making = nominateVictims(pod, choice, nodes, stop)) return *std::move(making);
  if (excess) return overQuota(pod, used, choice, *excess);
  return noFit(pod, used, choice, together.alone, nodes);
}

std::optional<Outcome> PodPlacement::nominateVictims(const core::Pod& pod, const Choice& choice, NodeChoice& nodes,
                                                     std::stop_token stop) {
  const scheduler::NodePredicate suits = [&nodes](std::string_view name) { return nodes.suits(name); };
  const auto& open = choice.open;
  if (open.size() == 1) {
    const auto& claim = *open.front()->claim;
    // Only the oldest pod that has no other open claim plans: two plans for one claim would undo each other forever.
    if (anotherWaits(pod, claim, Others::older, 1))
      return claim.status.nominated ? std::optional(Outcome::done()) : std::nullopt;
    // The claim's step drops a nomination without preemptionGroup() (leaveToConsumer): both must use the same claims.
    if (parts_.preemptor.preemptionGroup(open.front()->claim).size() != 1) return std::nullopt;
    return parts_.preemptor.nominateVictims(claim, choice.asked.front(), suits, stop);
  }
  AskedTogether all;
  for (std::size_t i = 0; i < open.size(); ++i) {
    const auto& claim = open[i]->claim;
    if (!choice.asked[i].preempts || parts_.preemptor.preemptionGroup(claim).size() != open.size()) return std::nullopt;
    all.claims.push_back(claim);
    all.places.push_back({suits, {}, i == 0 ? std::nullopt : std::optional<std::size_t>(0)});
  }
  all.asks = choice.asks;
  return parts_.preemptor.nominateVictimsForGroup("pod " + pod.metadata.name, podKey(core::keyOf(pod.metadata)),
                                                  std::move(all), stop);
}

bool PodPlacement::forgetRefusedNodes(const std::vector<allocator::Allocator::SchedulingRequest>& asks) {
  bool any = false;
  for (const auto& ask : asks) {
    any = any || context_.waiting.nodes.anyRefused(ask.claimUid);
    context_.waiting.nodes.forgetRefused(ask.claimUid);
  }
  return any;
}

Outcome PodPlacement::noFit(const core::Pod& pod, const std::vector<UsedClaim>& used, const Choice& choice,
                            const std::vector<bool>& alone, NodeChoice& nodes) {
  const auto& open = choice.open;
  // If each claim fits by itself, no single claim is the cause.
  const bool each = std::find(alone.begin(), alone.end(), false) == alone.end();
  const auto more = [&] {
    auto text = whyNotTogether(pod, choice, each, nodes);
    const auto add = [&text](const std::string& rest) { text += (text.empty() || rest.empty() ? "" : "; ") + rest; };
    if (open.size() > 1)
      add(parts_.preemptor.preemption().noVictimsMessage(open.front()->claim->metadata.uid, "pod " + pod.metadata.name,
                                                         "claims"));
    for (const auto* one : open) add(context_.waiting.consumers.text(core::keyOf(one->claim->metadata)));
    return text;
  };
  const auto suits = [&nodes] { return nodes.suitable(); };
  Soonest next;
  std::vector<ConditionUpdate> updates;
  std::vector<const UsedClaim*> fitting;
  std::string lacking;
  for (std::size_t i = 0; i < open.size(); ++i) {
    const bool fits = !each && alone[i];
    if (!fits) lacking += (lacking.empty() ? "claim " : ", claim ") + open[i]->claim->metadata.name;
    if (fits && !open[i]->claim->status.nominated) {
      fitting.push_back(open[i]);
      continue;
    }
    if (olderPodReports(pod, *open[i]->claim) || plannedByAnother(pod, choice, *open[i]->claim)) continue;
    const auto outcome =
        parts_.report.noFit({*open[i]->claim, choice.asked[i], podKey(core::keyOf(pod.metadata)), suits, {}, {}, more});
    updates.insert(updates.end(), outcome.updates.begin(), outcome.updates.end());
    next.add(outcome.delay);
  }
  addWaitReports(pod, fitting, waitText(pod, lacking), updates);
  // The backoff of a node may end without any event.
  for (const auto& one : used) next.add(context_.waiting.nodes.untilNextNode(one.claim->metadata.uid));
  return next.outcome().reports(std::move(updates));
}

std::string PodPlacement::whyNotTogether(const core::Pod& pod, const Choice& choice, bool each, NodeChoice& nodes) {
  std::string text;
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  if (choice.open.size() > 1) {
    std::string names;
    for (const auto* one : choice.open) names += (names.empty() ? "" : ", ") + one->claim->metadata.name;
    names += " of pod " + pod.metadata.name;
    add(each ? "each of the claims " + names + " fits by itself, but no node has capacity for all of them"
             : "claims " + names + " go to one node");
  }
  if (!choice.fixedBy.empty())
    add("claim " + choice.fixedBy + " of pod " + pod.metadata.name + " is on node " + choice.node);
  if (const auto why = nodes.text(); !why.empty()) add("nodes that don't suit pod " + pod.metadata.name + ": " + why);
  return text;
}

Outcome PodPlacement::writeIntents(const core::Pod& pod, const Choice& choice,
                                   const std::vector<scheduler::Decision>& decisions, std::stop_token stop) {
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const auto& claim = *choice.open[i]->claim;
    const auto device =
        context_.binder.writeIntent(claim, *choice.asked[i].cls, decisions[i], stop);  // the claim's step continues
    if (device.ok()) context_.waiting.released.forgetClaim(claim.metadata.uid);
    const bool ours = device.ok() && belongsTo(*device, claim) && !device->metadata.deleting();
    if (ours && device->spec.nodeName == decisions[i].node) continue;
    // The remaining claims are not written for a node that the pod's other claims do not share.
    for (std::size_t rest = i + 1; rest < decisions.size(); ++rest) context_.cluster.forget(choice.asks[rest].claimUid);
    if (device.status().code() == base::Code::invalid)  // the refusal may concern this node only
      context_.waiting.nodes.reject(claim.metadata.uid, decisions[i].node, "the device was refused",
                                    context_.timeouts.nodeRefusalBackoff);
    else if (ApiRejections::isRefusal(device.status()))  // a quota or rights: try other nodes first
      context_.waiting.nodes.refusedOn(claim.metadata.uid, decisions[i].node);
    if (!device.ok()) return Outcome::retry(device.status());
    context_.stores.usage.unplan(core::keyOf(pod.metadata));
    if (ours) return Outcome::requeueNow();  // another pod was faster: the remaining claims follow it, or all move
    if (belongsTo(*device, claim)) return Outcome::done();  // rolled back; its deletion requeues the pod
    const auto why = "an ElasticGPU named " + device->metadata.name + " exists and isn't this claim's";
    return Outcome::retry({base::Code::alreadyExists, why}).reports(notBound(claim, reason::kProvisionFailed, why));
  }
  return Outcome::done();
}

PodPlacement::Tried PodPlacement::decideFirst(const Choice& choice, NodeChoice& nodes) {
  Tried first{decide(choice.asks, nodes), false};
  auto& together = first.together;
  first.firstOverQuota = together.excess.has_value();
  std::vector<std::size_t> counts;
  for (const auto& asked : choice.asked) counts.push_back(asked.alternatives());
  scheduler::Combinations combinations(std::move(counts));
  const bool several = combinations.size() > 1;
  auto tried = together;
  while (several && together.decisions.empty()) {
    for (std::size_t i = 0; i < tried.alone.size(); ++i)
      if (!tried.excess && !tried.alone[i]) combinations.ruleOut(i, combinations.at()[i]);
    if (!combinations.next()) break;
    tried = decide(asksOf(choice, combinations.at()), nodes);
    together.decisions = tried.decisions;
    if (!tried.excess) together.excess.reset();
    for (std::size_t i = 0; i < tried.alone.size(); ++i) together.alone[i] = together.alone[i] || tried.alone[i];
  }
  for (std::size_t i = 0; i < together.decisions.size(); ++i) together.decisions[i].alternative = combinations.at()[i];
  if (const auto byEviction = together.decisions.empty() ? nodes.byEviction() : nullptr) {
    auto asks = choice.asks;
    for (auto& ask : asks) ask.first = false;
    auto evicting = context_.cluster.decideTogether(asks, byEviction);
    together.decisions = std::move(evicting.decisions);
    if (!together.excess && !several) together.excess = std::move(evicting.excess);
  }
  return first;
}

std::vector<allocator::Allocator::SchedulingRequest> PodPlacement::asksOf(const Choice& choice,
                                                                          const std::vector<std::size_t>& which) {
  std::vector<allocator::Allocator::SchedulingRequest> asks;
  for (std::size_t i = 0; i < which.size(); ++i) {
    asks.push_back(choice.asked[i].alternative(which[i]).of(*choice.open[i]->claim));
    asks.back().request.pinnedNode = choice.node;
  }
  return asks;
}

scheduler::Together PodPlacement::decide(std::vector<allocator::Allocator::SchedulingRequest> asks, NodeChoice& nodes) {
  for (auto& ask : asks) ask.first = false;  // `first` is for searches of all nodes; each call here searches some
  scheduler::Together together;
  std::optional<scheduler::QuotaExcess> excess;  // the first excess that was found
  const auto within = [&](const scheduler::NodePredicate& suitable) {
    auto decided = context_.cluster.decideTogether(asks, suitable);
    if (!excess) excess = decided.excess;
    return decided;
  };
  const auto suits = [&](std::string_view name) { return nodes.suits(name); };
  if (!nodes.ranked()) {
    nodes.limitEvaluations(kMaxNodesUnderLock);
    together = within(suits);
    if (!together.decisions.empty()) return together;
    const bool limitReached = nodes.limitReached();
    nodes.evaluateAll();
    if (limitReached && nodes.anySuits()) together = within(suits);
    if (!together.decisions.empty()) return together;
  } else {
    nodes.evaluateAll();
    std::vector<bool> alone(asks.size(), false);
    for (const auto& group : nodes.groups()) {
      together = within(group);
      if (!together.decisions.empty()) return together;
      for (std::size_t i = 0; i < asks.size(); ++i) alone[i] = alone[i] || together.alone[i];
    }
    together.alone = std::move(alone);
  }
  together.excess = std::move(excess);
  return together;
}

void PodPlacement::removeNodeResourceWait(const core::ObjectKey& pod) {
  const base::MutexLock lock(mutex_);
  podsWaitingForNodeResources_.erase(pod);
}

void PodPlacement::freed(const std::string& node) {
  std::vector<std::pair<core::ObjectKey, Short>> waiting;
  {
    const base::MutexLock lock(mutex_);
    if (podsWaitingForNodeResources_.empty()) return;
    waiting.assign(podsWaitingForNodeResources_.begin(), podsWaitingForNodeResources_.end());
  }
  const auto object = context_.stores.nodes.get({"", node});
  if (!object) return;
  std::sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) { return a.second.age < b.second.age; });
  for (const auto& [pod, is] : waiting)
    if (shortOf(is.requests, context_.stores.usage.of(node, pod), *object).empty()) context_.enqueue(podKey(pod));
}

std::size_t PodPlacement::remembered() const {
  const base::MutexLock lock(mutex_);
  return podsWaitingForNodeResources_.size();
}

}  // namespace egpu::reconcile
