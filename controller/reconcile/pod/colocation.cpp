#include "controller/reconcile/pod/colocation.h"

#include <algorithm>

#include "api/v1alpha/pod_claims.h"
#include "api/v1alpha/remote.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/pod/node_choice.h"
#include "controller/reconcile/pod/node_fit/node_fit.h"
#include "controller/reconcile/pod/schedulability.h"

namespace egpu::reconcile {

bool PodColocation::canRollBackIntent(const core::Pod& pod, const UsedClaim& one) const {
  if (!one.device || !reconcile::canRollBackIntent(context_.stores, context_.waiting.chosen, *one.claim, *one.device))
    return false;
  const auto node = context_.stores.nodes.get({"", one.device->spec.nodeName});
  if (!node) return true;
  // The intent stays for another pod that has all its claims on this node.
  for (const auto& other : context_.stores.podsOfClaim(core::keyOf(one.claim->metadata))) {
    if (other->metadata.uid == pod.metadata.uid || !isConsumer(context_.stores, *other)) continue;
    if (!other->nodeName.empty() && other->nodeName != node->metadata.name) continue;
    const auto there = [&](const auto& name) {
      const auto claim = context_.stores.claims.get({other->metadata.namespace_, name});
      const auto device = claim ? deviceOf(context_.stores, *claim) : nullptr;
      return !claim || (device && device->spec.nodeName == node->metadata.name);
    };
    const auto names = v1alpha::claimNames(*other);
    if (std::all_of(names.begin(), names.end(), there) && nodeUnsuitable(*other, {}, *node).empty()) return false;
  }
  return true;
}

std::optional<Outcome> PodColocation::reconcile(const core::Pod& pod, const std::vector<UsedClaim>& used,
                                                std::stop_token stop) {
  std::string node = pod.nodeName;
  const auto elsewhere = [&](const UsedClaim& one) { return one.device && one.device->spec.nodeName != node; };
  if (node.empty()) {
    const auto first = std::find_if(used.begin(), used.end(), [](const auto& one) { return one.device != nullptr; });
    if (first == used.end()) return std::nullopt;
    node = first->device->spec.nodeName;
  }
  if (std::none_of(used.begin(), used.end(), elsewhere)) return std::nullopt;
  // The others join the claims that can't move, or else the first by name, so that two pods of the same claims agree.
  node = pod.nodeName;
  const UsedClaim* first = nullptr;
  std::vector<const UsedClaim*> moving;
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

Outcome PodColocation::regroup(const std::vector<const UsedClaim*>& moving, const std::string& why,
                               std::stop_token stop) {
  auto all = Outcome::done();  // the deletion of the rolled-back devices requeues the pod
  for (const auto* one : moving) {
    auto outcome = parts_.rollback.regroup(*one->claim, *one->device, why, stop);
    if (outcome.isRetry()) return std::move(outcome).reports(std::move(all.updates));
    all.updates.insert(all.updates.end(), outcome.updates.begin(), outcome.updates.end());
  }
  return all;
}

std::optional<Outcome> PodColocation::rescheduleTogether(const core::Pod& pod, const std::vector<UsedClaim>& used,
                                                         bool* anyShort, std::stop_token stop) {
  if (!pod.nodeName.empty()) return std::nullopt;
  std::vector<allocator::Allocator::SchedulingRequest>
      asks;  // in their order, so that the later decision has the same result
  std::vector<const UsedClaim*> moving;
  std::vector<std::string> devices;
  for (const auto& one : used) {
    if (one.device && v1alpha::isOnAnyNode(*one.device)) continue;
    if (one.device && !canRollBackIntent(pod, one)) return std::nullopt;
    const auto asked = parts_.resolver.resolve(*one.claim);
    if (asked.later) return Outcome::after(context_.timeouts.busyPluginInterval);
    if (!asked.ok()) return std::nullopt;
    asks.push_back(asked.of(*one.claim));
    if (!one.device) continue;
    moving.push_back(&one);
    devices.push_back(one.device->metadata.name);
  }
  auto volumes = context_.volumes.of(pod, stop);
  if (!volumes.ok()) return Outcome::retry(volumes.status());
  NodeChoice nodes(context_.stores, pod, std::move(*volumes), {}, [&](std::string_view name) {
    return std::any_of(asks.begin(), asks.end(),
                       [&](const auto& ask) { return context_.waiting.nodes.rejected(ask.claimUid, name); });
  });
  nodes.evaluateAll();
  *anyShort = *anyShort || nodes.anyShort();
  if (!context_.cluster.queries().wouldFitTogether(
          asks, [&](std::string_view name) { return nodes.suits(name); }, devices))
    return std::nullopt;
  return regroup(
      moving,
      "it has no capacity for the other claims of pod " + pod.metadata.name + ", and together they fit elsewhere",
      stop);
}

}  // namespace egpu::reconcile
