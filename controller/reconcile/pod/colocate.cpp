// Brings the claims of one pod to one node: rolls back intents that are on other nodes, or beside which the rest does
// not fit.
#include <algorithm>

#include "api/v1alpha/pod_claims.h"
#include "controller/reconcile/pod/pod.h"

namespace egpu::reconcile {

using std::chrono::milliseconds;

bool PodSync::canRollBackIntent(const core::Pod& pod, const Used& one) const {
  if (!one.device || !claims_.canRollBackIntent(*one.claim, *one.device)) return false;
  const auto node = stores_.nodes.get({"", one.device->spec.nodeName});
  if (!node) return true;
  // The intent stays for another pod that has all its claims on this node.
  for (const auto& other : stores_.podsOfClaim(core::keyOf(one.claim->metadata))) {
    if (other->metadata.uid == pod.metadata.uid || !isConsumer(stores_, *other)) continue;
    if (!other->nodeName.empty() && other->nodeName != node->metadata.name) continue;
    const auto there = [&](const auto& name) {
      const auto claim = stores_.claims.get({other->metadata.namespace_, name});
      const auto device = claim ? claims_.deviceOf(*claim) : nullptr;
      return !claim || (device && device->spec.nodeName == node->metadata.name);
    };
    const auto names = v1alpha::claimNames(*other);
    if (std::all_of(names.begin(), names.end(), there) && nodeUnsuitable(*other, {}, *node).empty()) return false;
  }
  return true;
}

std::optional<Outcome> PodSync::colocateClaims(const core::Pod& pod, const std::vector<Used>& used,
                                               std::stop_token stop) {
  std::string node = pod.nodeName;
  const auto elsewhere = [&](const Used& one) { return one.device && one.device->spec.nodeName != node; };
  if (node.empty()) {
    const auto first = std::find_if(used.begin(), used.end(), [](const auto& one) { return one.device != nullptr; });
    if (first == used.end()) return std::nullopt;
    node = first->device->spec.nodeName;
  }
  if (std::none_of(used.begin(), used.end(), elsewhere)) return std::nullopt;
  // The others join the claims that can't move, or else the first by name, so that two pods of the same claims agree.
  node = pod.nodeName;
  const Used* first = nullptr;
  std::vector<const Used*> moving;
  for (const auto& one : used) {
    if (!one.device || one.device->metadata.deleting()) continue;
    if (canRollBackIntent(pod, one)) {
      moving.push_back(&one);
      if (first == nullptr || one.claim->metadata.name < first->claim->metadata.name) first = &one;
    } else if (node.empty()) {
      node = one.device->spec.nodeName;
    } else if (node != one.device->spec.nodeName) {
      return std::nullopt;  // moving the movable claims would not bring these together
    }
  }
  if (node.empty() && first != nullptr) node = first->device->spec.nodeName;
  moving.erase(std::remove_if(moving.begin(), moving.end(), [&](const auto* one) { return !elsewhere(*one); }),
               moving.end());
  if (moving.empty()) return std::nullopt;
  return regroup(moving, "the other claims of pod " + pod.metadata.name + " are on node " + node, stop);
}

Outcome PodSync::regroup(const std::vector<const Used*>& moving, const std::string& why, std::stop_token stop) {
  auto all = Outcome::done();  // the deletion of the rolled-back devices requeues the pod
  for (const auto* one : moving) {
    auto outcome = claims_.regroup(*one->claim, *one->device, why, stop);
    if (outcome.isRetry()) return std::move(outcome).reports(std::move(all.updates));
    all.updates.insert(all.updates.end(), outcome.updates.begin(), outcome.updates.end());
  }
  return all;
}

std::optional<Outcome> PodSync::rescheduleTogether(const core::Pod& pod, const std::vector<Used>& used,
                                                   const Choice& choice, bool* anyShort, std::stop_token stop) {
  if (!pod.nodeName.empty() || choice.fixedBy.empty()) return std::nullopt;
  std::vector<cache::ClusterView::SchedulingRequest>
      asks;  // in their order, so that the later decision has the same result
  std::vector<const Used*> moving;
  std::vector<std::string> devices;
  for (const auto& one : used) {
    if (one.device && !canRollBackIntent(pod, one)) return std::nullopt;
    const auto asked = claims_.ask(*one.claim);
    if (asked.later) return Outcome::after(milliseconds(50));
    if (!asked.ok()) return std::nullopt;
    asks.push_back(asked.of(*one.claim));
    if (!one.device) continue;
    moving.push_back(&one);
    devices.push_back(one.device->metadata.name);
  }
  auto volumes = volumes_.of(pod, stop);
  if (!volumes.ok()) return Outcome::retry(volumes.status());
  NodeChoice nodes(stores_, pod, std::move(*volumes), {}, [&](std::string_view name) {
    return std::any_of(asks.begin(), asks.end(),
                       [&](const auto& ask) { return waiting_.nodes.rejected(ask.claimUid, name); });
  });
  nodes.lookAtAll();
  *anyShort = *anyShort || nodes.anyShort();
  if (!cluster_.queries().wouldFitTogether(
          asks, [&](std::string_view name) { return nodes.suits(name); }, devices))
    return std::nullopt;
  return regroup(
      moving,
      "it has no capacity for the other claims of pod " + pod.metadata.name + ", and together they fit elsewhere",
      stop);
}

}  // namespace egpu::reconcile
