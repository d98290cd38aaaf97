#include "controller/reconcile/consumer.h"

#include <algorithm>
#include <set>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/node_fit.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

Outcome Consumer::step(const core::ObjectKey& key, std::stop_token stop) {
  auto pod = stores_.pods.get(key);
  if (!pod || !alive(*pod) || pod->metadata.deleting()) {
    waiting_.satisfied(podKey(key));
    const std::lock_guard lock(mutex_);
    told_.erase(key);
    return Outcome::done();
  }
  std::vector<Used> used;
  std::set<std::string> names;
  for (const auto& entry : pod->resourceClaims) {
    if (entry.resourceClaimName.empty() || !names.insert(entry.resourceClaimName).second) continue;
    const core::ObjectKey claimKeyOf{key.namespace_, entry.resourceClaimName};
    auto claim = stores_.claims.get(claimKeyOf);
    if (!claim) {
      auto foreign = stores_.carriers.get(claimKeyOf);
      if (foreign && Carrier::ownerUid(*foreign).empty()) continue;  // another driver's: not ours to wait for
      tell(*pod, entry.resourceClaimName, "NotFound", "there is no such ElasticGPUClaim");
      return Outcome::done();  // the claim's creation is an event
    }
    if (claim->metadata.deleting()) {
      tell(*pod, entry.resourceClaimName, "Deleting", "it is being deleted");
      return Outcome::done();
    }
    used.push_back({claim, claims_.deviceOf(*claim)});
  }
  if (used.empty()) return Outcome::done();
  const bool open = std::any_of(used.begin(), used.end(), [](const auto& one) { return !one.device; });
  if (!open) waiting_.satisfied(podKey(key));
  if (!open && !gated(*pod)) return Outcome::done();
  const auto outcome = open ? choose(*pod, used, stop) : letGo(*pod, used, stop);
  tellConditions(*pod, used);
  return outcome;
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

std::string Consumer::unsuitedNodes(const core::Pod& pod) const {
  std::map<std::string, int64_t> reasons;
  stores_.nodes.forEach([&](const auto& node) {
    if (auto why = nodeUnsuitable(pod, *node); !why.empty()) ++reasons[why];
  });
  std::string text;
  for (const auto& [why, count] : reasons) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + why;
  return text.empty() ? text : "nodes that don't suit pod " + pod.metadata.name + ": " + text;
}

Outcome Consumer::choose(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop) {
  std::string node = pod.nodeName;
  std::vector<const Used*> open;
  std::vector<cache::ClusterView::Ask> asks;
  std::vector<Asked> asked;
  for (const auto& one : used) {
    if (one.device) {
      if (one.device->metadata.deleting())
        return Outcome::done();  // on its way out; its last event brings us here again
      if (!node.empty() && one.device->spec.nodeName != node) return Outcome::done();  // said when all have a device
      node = one.device->spec.nodeName;
      continue;
    }
    if (ClaimSync::isStatic(*one.claim) && !stores_.cards.get({"", one.claim->spec.elasticGPUName}))
      return Outcome::done();  // a device by name: the claim's step takes it
    auto ask = claims_.ask(*one.claim);
    if (ask.later) return Outcome::after(milliseconds(50));
    if (!ask.ok()) return Outcome::done();                                       // the claim's step says so
    if (ask.cls->bindingMode != "WaitForFirstConsumer") return Outcome::done();  // bound without us, then we come again
    if (!waiting_.refusal(one.claim->metadata.uid).empty()) return Outcome::done();
    asks.push_back({one.claim->metadata.uid, core::keyOf(one.claim->metadata).str(), ask.request});
    asked.push_back(std::move(ask));
    open.push_back(&one);
  }
  const auto suits = [&](std::string_view name) {
    if (!node.empty() && name != node) return false;
    for (const auto& ask : asks)
      if (waiting_.rejected(ask.claimUid, name)) return false;
    auto object = stores_.nodes.get({"", std::string(name)});
    return object && nodeUnsuitable(pod, *object).empty();
  };
  const auto queueKey = podKey(core::keyOf(pod.metadata));
  waiting_.forRoom(queueKey);
  std::size_t failed = 0;
  const auto decisions = cluster_.decideTogether(asks, suits, &failed);
  if (decisions.empty()) {  // (C6)
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (open.size() > 1 && i != failed) continue;
      auto outcome = claims_.noFit(*open[i]->claim, asked[i].request, suits, stop, [&] { return unsuitedNodes(pod); });
      if (outcome.kind != Outcome::Kind::done) return outcome;
    }
    // A node that was refused for a while may serve again without any event.
    for (const auto& ask : asks)
      if (waiting_.anyRejected(ask.claimUid)) return Outcome::after(milliseconds(30'000));
    return Outcome::done();
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
    if (!carrier || carrier->metadata.deleting() || !Carrier::ownedBy(*carrier, one.claim->metadata.uid) ||
        !carrier->allocation || carrier->allocation->device != one.device->metadata.name)
      return Outcome::done();  // its allocation is an event
    if (one.device->status.phase == "Bound")
      anyBound = true;
    else if (!claims_.waitsForConsumer(*one.claim))
      return Outcome::done();  // Immediate: Bound first
  }
  if (anyBound) {
    auto object = stores_.nodes.get({"", node});
    const auto why = object ? nodeUnsuitable(pod, *object) : "there is no such node";
    if (!why.empty()) {  // pinned there it could never run, and a pin is for good
      for (const auto& one : used) {
        const auto status =
            status_.carried(*one.claim, reason::kNodeUnsuitable,
                            "pod " + pod.metadata.name + " can't run on node " + node + ": " + why, stop);
        if (!status.ok()) return Outcome::retry(status);
      }
      return Outcome::done();
    }
  }
  const auto body = anyBound ? codec::patch::pinAndLift(pod, node, keys::kSchedulingGate)
                             : codec::patch::liftGate(pod, keys::kSchedulingGate);
  auto lifted = writer_.patch(pod, body, {}, stop, kube::PatchType::json);
  if (!lifted.ok()) {
    if (lifted.status().code() == base::Code::notFound) return Outcome::done();
    auto now = writer_.read<core::Pod>(core::keyOf(pod.metadata), pod.metadata.uid, stop);
    return Outcome::retry(lifted.status());
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
