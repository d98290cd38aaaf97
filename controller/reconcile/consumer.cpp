#include "controller/reconcile/consumer.h"

#include <algorithm>
#include <set>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/node_fit/resources.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {
constexpr std::size_t kLooksUnderLock = 256;  ///< at nodes, while nobody else can decide
}  // namespace

Outcome Consumer::step(const core::ObjectKey& key, std::stop_token stop) {
  auto pod = stores_.pods.get(key);
  if (!pod || !alive(*pod) || pod->metadata.deleting()) {
    waiting_.satisfied(podKey(key));
    stores_.usage.unplan(key);
    const std::lock_guard lock(mutex_);
    told_.erase(key);
    short_.erase(key);
    return Outcome::done();
  }
  const auto claims = claimsOf(*pod, stop);
  if (!claims || claims->empty()) {
    stores_.usage.unplan(key);
    return Outcome::done();
  }
  const auto& used = *claims;
  const bool open = std::any_of(used.begin(), used.end(), [](const auto& one) { return !one.device; });
  if (open) {
    stores_.usage.unplan(key);  // until it is promised a node anew
  } else {
    waiting_.satisfied(podKey(key));
    plan(*pod, used);
  }
  if (!open && !gated(*pod)) return Outcome::done();
  auto outcome = open ? choose(*pod, used, stop) : letGo(*pod, used, stop);
  tellConditions(*pod, used);
  return outcome;
}

std::optional<std::vector<Consumer::Used>> Consumer::claimsOf(const core::Pod& pod, std::stop_token stop) {
  const auto key = core::keyOf(pod.metadata);
  std::set<std::string> annotated;
  for (auto it = pod.metadata.annotations.lower_bound(keys::kClaimAnnotationPrefix);
       it != pod.metadata.annotations.end() && it->first.rfind(keys::kClaimAnnotationPrefix, 0) == 0; ++it)
    annotated.insert(it->second);
  std::vector<Used> used;
  std::set<std::string> names;
  for (const auto& entry : pod.resourceClaims) {
    if (entry.resourceClaimName.empty() || !names.insert(entry.resourceClaimName).second) continue;
    const core::ObjectKey claimKeyOf{key.namespace_, entry.resourceClaimName};
    auto claim = stores_.claims.get(claimKeyOf);
    if (!claim && gated(pod)) {  // pods and claims come by different watches
      const auto now = writer_.read<cache::Claim>(claimKeyOf, {}, stop);
      if (now.ok()) claim = stores_.claims.get(claimKeyOf);
    }
    if (!claim) {
      auto foreign = stores_.carriers.get(claimKeyOf);
      if (foreign && Carrier::ownerUid(*foreign).empty() && annotated.count(entry.resourceClaimName) == 0)
        continue;  // another driver's: not ours to wait for
      tell(pod, entry.resourceClaimName, "NotFound", "there is no such ElasticGPUClaim");
      return std::nullopt;  // the claim's creation is an event
    }
    if (claim->metadata.deleting()) {
      tell(pod, entry.resourceClaimName, "Deleting", "it is being deleted");
      return std::nullopt;
    }
    used.push_back({claim, claims_.deviceOf(*claim)});
  }
  return used;
}

void Consumer::plan(const core::Pod& pod, const std::vector<Used>& used) {
  if (!pod.nodeName.empty()) return;  // it counts there by itself
  const auto& node = used.front().device->spec.nodeName;
  bool counts = std::all_of(used.begin(), used.end(), [&](const auto& one) {
    return one.device->spec.nodeName == node && !one.device->metadata.deleting();
  });
  // A pod that can't be placed there holds up no other, unless the scheduler makes room for it there.
  const auto* scheduled = findCondition(pod.conditions, "PodScheduled");
  if (scheduled != nullptr && scheduled->reason == "Unschedulable" && pod.nominatedNodeName != node) counts = false;
  const auto key = core::keyOf(pod.metadata);
  const auto object = counts ? stores_.nodes.get({"", node}) : nullptr;
  if (object && shortOf(cache::requestsOf(pod), stores_.usage.of(node, key), *object).empty())
    stores_.usage.plan(pod, node);
  else
    stores_.usage.unplan(key);
}

void Consumer::freed(const std::string& node) {
  std::vector<std::pair<core::ObjectKey, cache::PodRequests>> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (short_.empty()) return;
    waiting.assign(short_.begin(), short_.end());
  }
  const auto object = stores_.nodes.get({"", node});
  if (!object) return;
  for (const auto& [pod, requests] : waiting)
    if (shortOf(requests, stores_.usage.of(node, pod), *object).empty()) enqueue_(podKey(pod));
}

void Consumer::tell(const core::Pod& pod, const std::string& claim, std::string_view why, const std::string& message) {
  if (!gated(pod)) return;
  {
    const std::string what = pod.metadata.uid + " " + claim + " " + std::string(why);
    const std::lock_guard lock(mutex_);
    auto& last = told_[core::keyOf(pod.metadata)];
    if (last == what) return;
    last = what;
  }
  events_.event(kube::referenceTo(pod), "Warning", "WaitingForClaim", "claim " + claim + ": " + message);
}

void Consumer::tellConditions(const core::Pod& pod, const std::vector<Used>& used) {
  const auto now = stores_.pods.get(core::keyOf(pod.metadata));
  if (!now || !gated(*now)) return;
  for (const auto& one : used) {
    const auto claim = stores_.claims.get(core::keyOf(one.claim->metadata));  // with what was just written
    if (!claim) continue;
    const bool decided = claims_.deviceOf(*claim) != nullptr;  // then what Bound says is of before
    for (const auto type : {kBound, kCarried}) {
      if (type == kBound && decided) continue;
      const auto* condition = findCondition(claim->status.conditions, type);
      if (condition == nullptr || condition->status != "False" || condition->message.empty()) continue;
      if (condition->reason == reason::kWaitingForConsumer || condition->reason == reason::kProvisioning) continue;
      tell(pod, claim->metadata.name, condition->reason, condition->reason + ": " + condition->message);
      return;
    }
  }
}

Outcome Consumer::choose(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop) {
  std::string node = pod.nodeName, fixedBy;
  std::vector<const Used*> open;
  std::vector<cache::ClusterView::Ask> asks;
  std::vector<Asked> asked;
  milliseconds wait{0};
  for (const auto& one : used) {
    if (one.device) {
      if (one.device->metadata.deleting())
        return Outcome::done();  // on its way out; its last event brings us here again
      if (!node.empty() && one.device->spec.nodeName != node) return Outcome::done();  // said when all have a device
      node = one.device->spec.nodeName;
      fixedBy = one.claim->metadata.name;
      continue;
    }
    if (claims_.takesDevice(*one.claim)) return Outcome::done();  // the claim's step takes it
    auto ask = claims_.ask(*one.claim);
    if (ask.later) return Outcome::after(milliseconds(50));
    if (!ask.ok()) return Outcome::done();                                       // the claim's step says so
    if (ask.cls->bindingMode != "WaitForFirstConsumer") return Outcome::done();  // bound without us, then we come again
    if (!waiting_.refusal(one.claim->metadata.uid).empty()) return Outcome::done();
    wait = std::max(wait, waiting_.untilNextChoice(one.claim->metadata.uid));
    asks.push_back({one.claim->metadata.uid, core::keyOf(one.claim->metadata).str(), ask.request});
    asked.push_back(std::move(ask));
    open.push_back(&one);
  }
  if (wait.count() > 0) return Outcome::after(wait);
  auto volumes = volumes_.of(pod, stop);
  if (!volumes.ok()) return Outcome::retry(volumes.status());
  NodeChoice nodes(stores_, pod, std::move(*volumes), node, [&](std::string_view name) {
    return std::any_of(asks.begin(), asks.end(),
                       [&](const auto& ask) { return waiting_.rejected(ask.claimUid, name); });
  });
  const auto key = core::keyOf(pod.metadata);
  const auto queueKey = podKey(key);
  waiting_.forRoom(queueKey);
  {
    const std::lock_guard lock(mutex_);  // before looking: what is given back from now on brings us here again
    short_[key] = cache::requestsOf(pod);
  }
  std::size_t failed = 0;
  const auto decisions = decide(asks, nodes, &failed);
  if (!decisions.empty() || !nodes.anyShort()) {
    const std::lock_guard lock(mutex_);
    short_.erase(key);
  }
  if (decisions.empty()) {  // (C6)
    const auto more = [&] {
      std::string text;
      if (!fixedBy.empty()) text = "claim " + fixedBy + " of pod " + pod.metadata.name + " is on node " + node;
      if (const auto why = nodes.text(); !why.empty())
        text += (text.empty() ? "" : "; ") + ("nodes that don't suit pod " + pod.metadata.name + ": ") + why;
      return text;
    };
    const auto suits = [&](std::string_view name) { return nodes.suits(name); };
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (open.size() > 1 && i != failed) continue;
      auto outcome = claims_.noFit(*open[i]->claim, asked[i].request, suits, stop, more);
      if (outcome.kind != Outcome::Kind::done) return outcome;
    }
    // A node that was refused for a while may serve again without any event.
    for (const auto& ask : asks)
      if (const auto next = waiting_.untilNextNode(ask.claimUid); next.count() > 0)
        wait = wait.count() > 0 ? std::min(wait, next) : next;
    return wait.count() > 0 ? Outcome::after(wait) : Outcome::done();
  }
  if (!nodes.promise(decisions.front().node)) {  // another pod was promised it meanwhile
    for (const auto& ask : asks) cluster_.forget(ask.claimUid);
    return Outcome::after(milliseconds(0));
  }
  waiting_.satisfied(queueKey);
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    auto device =
        binder_.writeIntent(*open[i]->claim, *asked[i].cls, decisions[i], stop);  // W1; the claim's step goes on
    if (device.ok()) continue;
    for (std::size_t rest = i; rest < decisions.size(); ++rest) cluster_.forget(asks[rest].claimUid);
    return Outcome::retry(device.status());
  }
  return Outcome::done();
}

std::vector<scheduler::Decision> Consumer::decide(const std::vector<cache::ClusterView::Ask>& asks, NodeChoice& nodes,
                                                  std::size_t* failed) {
  std::vector<scheduler::Decision> decisions;
  if (nodes.ranked()) {
    nodes.lookAtAll();
    for (const auto& group : nodes.groups())
      if (decisions = cluster_.decideTogether(asks, group, failed); !decisions.empty()) return decisions;
  } else {
    const auto suits = [&](std::string_view name) { return nodes.suits(name); };
    nodes.setPatience(kLooksUnderLock);
    if (decisions = cluster_.decideTogether(asks, suits, failed); !decisions.empty()) return decisions;
    const bool impatient = nodes.impatient();
    nodes.lookAtAll();
    if (impatient)
      if (decisions = cluster_.decideTogether(asks, suits, failed); !decisions.empty()) return decisions;
  }
  std::size_t other = 0;
  if (const auto byEviction = nodes.byEviction()) decisions = cluster_.decideTogether(asks, byEviction, &other);
  return decisions;
}

bool Consumer::suitsAnotherPod(const core::Pod& pod, const std::vector<Used>& used, const core::Node& node) const {
  for (const auto& one : used)
    for (const auto& other : stores_.podsOfClaim(core::keyOf(one.claim->metadata)))
      if (other->metadata.uid != pod.metadata.uid && alive(*other) && nodeUnsuitable(*other, {}, node).empty())
        return true;
  return false;
}

Outcome Consumer::unsuited(const core::Pod& pod, const std::vector<Used>& used, bool anyBound, const std::string& why,
                           std::stop_token stop) {
  const auto& node = used.front().device->spec.nodeName;
  // Pinned there it could never run, and a pin is for good; not pinned, the scheduler would clear what another pod
  // needs.
  const auto message = "pod " + pod.metadata.name + " can't run on node " + node +
                       (anyBound ? "" : ", chosen for another pod") + ": " + why;
  for (const auto& one : used) {
    const auto status = status_.carried(*one.claim, reason::kNodeUnsuitable, message, stop);
    if (!status.ok()) return Outcome::retry(status);
  }
  return Outcome::done();
}

Outcome Consumer::letGo(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop) {
  for (const auto& one : used) {
    // A pin is for good: not to hardware that is gone. What becomes of a Lost claim is an event.
    if (one.claim->status.phase == "Lost" || one.device->status.phase == "Failed") return Outcome::done();
    if (one.device->status.reason == reason::kCardGone) return Outcome::after(milliseconds(100));  // Lost soon, or not
  }
  const auto& node = used.front().device->spec.nodeName;
  for (const auto& one : used) {
    if (one.device->spec.nodeName == node) continue;
    // Two claims on different nodes never fit one pod.
    for (const auto& each : used) {
      const auto status = status_.carried(*each.claim, reason::kNodeUnsuitable,
                                          "pod " + pod.metadata.name + " can't run: claim " +
                                              used.front().claim->metadata.name + " is on node " + node + ", claim " +
                                              one.claim->metadata.name + " on node " + one.device->spec.nodeName,
                                          stop);
      if (!status.ok()) return Outcome::retry(status);
    }
    return Outcome::done();
  }
  bool anyBound = false;
  for (const auto& one : used) {
    auto carrier = stores_.carriers.get(core::keyOf(one.claim->metadata));
    if (carrier && carrier->metadata.deleting() && !carrier->reservedFor.empty())
      tell(pod, one.claim->metadata.name, "Leaving",
           "its ResourceClaim is being deleted and is still reserved for other pods");
    if (!carrier || carrier->metadata.deleting() || !Carrier::ownedBy(*carrier, one.claim->metadata.uid) ||
        !carrier->allocation || carrier->allocation->device != one.device->metadata.name)
      return Outcome::done();  // its allocation is an event
    if (one.device->status.phase == "Bound")
      anyBound = true;
    else if (!claims_.waitsForConsumer(*one.claim))
      return Outcome::done();  // Immediate: Bound first
  }
  const auto object = stores_.nodes.get({"", node});
  auto volumes = volumes_.of(pod, stop);
  if (!volumes.ok()) return Outcome::retry(volumes.status());
  const auto why = object ? nodeUnsuitable(pod, *volumes, *object) : "there is no such node";
  if (!why.empty()) {
    if (!anyBound && (!object || !suitsAnotherPod(pod, used, *object)))
      return claims_.moveAway(*used.front().claim, *used.front().device,
                              "pod " + pod.metadata.name + " can't run there: " + why, stop);
    return unsuited(pod, used, anyBound, why, stop);
  }
  const auto body = anyBound ? codec::patch::pinAndLift(pod, node, keys::kSchedulingGate)
                             : codec::patch::liftGate(pod, keys::kSchedulingGate);
  auto lifted = writer_.patch(pod, body, {}, stop, kube::PatchType::json);
  if (!lifted.ok()) {
    if (lifted.status().code() == base::Code::notFound) return Outcome::done();
    const auto now = writer_.read<core::Pod>(core::keyOf(pod.metadata), pod.metadata.uid, stop);
    const bool changed = now.ok() && now->metadata.resourceVersion != pod.metadata.resourceVersion;
    return changed ? Outcome::after(milliseconds(0)) : Outcome::retry(lifted.status());
  }
  for (const auto& one : used) {
    const auto* carried = findCondition(one.claim->status.conditions, kCarried);
    if (carried == nullptr || carried->reason != reason::kNodeUnsuitable) continue;
    const auto status = status_.carried(*one.claim, {}, {}, stop);
    if (!status.ok() && status.code() != base::Code::notFound) return Outcome::retry(status);
  }
  return Outcome::done();
}

}  // namespace egpu::reconcile
