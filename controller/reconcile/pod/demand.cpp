#include "controller/reconcile/pod/demand.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "api/v1alpha/remote.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/resourceclaim/adopter.h"
#include "controller/scheduler/first_available.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;

namespace {

/// Returns the message of condition Bound, after a colon, if the condition is not True; otherwise empty.
std::string boundMessage(const cache::Claim& claim) {
  const auto* bound = findCondition(claim.status.conditions, kBound);
  return bound == nullptr || bound->status == "True" || bound->message.empty() ? std::string() : ": " + bound->message;
}

}  // namespace

bool isLeft(const cache::Gpu& device) {
  return device.status.reason == reason::kPreempted || device.status.reason == reason::kWaitingForGang;
}

std::vector<std::vector<allocator::Allocator::SchedulingRequest>> otherAsks(const PodDemand& demand) {
  std::vector<std::size_t> counts;
  for (const auto& otherwise : demand.otherwise) counts.push_back(1 + otherwise.size());
  std::vector<std::vector<allocator::Allocator::SchedulingRequest>> all;
  scheduler::Combinations combinations(std::move(counts));
  while (combinations.next()) {
    auto& asks = all.emplace_back(demand.asks);
    for (std::size_t i = 0; i < asks.size(); ++i)
      if (const auto which = combinations.at()[i]; which > 0) {
        asks[i].request = demand.otherwise[i][which - 1];
        asks[i].first = false;
      }
  }
  return all;
}

std::vector<std::string> usedOrAnnotated(const core::Pod& pod) {
  auto names = v1alpha::claimNames(pod);
  for (const auto& name : v1alpha::onlyAnnotatedClaims(pod)) names.push_back(name);
  return names;
}

std::string DemandReader::unstamped(const core::Pod& pod) const {
  for (const auto& one : v1alpha::podClaims(pod)) {
    if (one.state != v1alpha::PodClaimState::pending) continue;
    // A template that does not exist yet may be created because the pod names it, or may arrive by a later watch.
    const auto of = context_.stores.resourceClaimTemplates.get({pod.metadata.namespace_, one.templateName});
    if (!of || asks(of->claim)) return "no ResourceClaim is made yet from its template " + one.templateName;
  }
  return {};
}

PodDemand DemandReader::demandOf(const core::Pod& pod) {
  PodDemand demand;
  if (const auto obstacle = obstacleOf(context_.stores, pod)) {
    (obstacle.reason == reason::kSchedulerNotServed ? demand.never : demand.later) = obstacle.message;
    return demand;
  }
  demand.later = unstamped(pod);
  if (!demand.later.empty()) return demand;
  for (const auto& name : usedOrAnnotated(pod)) {
    addDemand(pod, {pod.metadata.namespace_, name}, demand);
    if (!demand.later.empty() || !demand.never.empty()) break;
  }
  return demand;
}

void DemandReader::addDemand(const core::Pod& pod, const core::ObjectKey& key, PodDemand& demand) {
  const auto prefix = "claim " + key.name + ": ";
  auto claim = context_.stores.claims.get(key);
  const auto resourceClaim = context_.stores.resourceClaims.get(key);
  const bool ofOthers = resourceClaim && !asks(*resourceClaim) && resourceClaim->deviceClassName != keys::kDeviceClass;
  if (!claim && ofOthers && !v1alpha::annotatedClaims(pod).contains(key.name)) return;  // a claim of another driver
  if (!claim) {  // pods and claims arrive by different watches; the creation of a stamped claim requeues the pod
    if (!(resourceClaim && asks(*resourceClaim)) && context_.writer.read<cache::Claim>(key, {}, {}).ok())
      claim = context_.stores.claims.get(key);
    if (!claim) {
      demand.later =
          prefix + (resourceClaim && asks(*resourceClaim) ? "no ElasticGPUClaim is made yet for its ResourceClaim"
                                                          : "there is no such ElasticGPUClaim");
      return;
    }
  }
  if (claim->metadata.deleting()) {
    demand.later = prefix + "it is being deleted";
  } else if (resourceClaim && asks(*resourceClaim) && madeFor(*claim) != resourceClaim->metadata.uid) {
    demand.never = prefix + "an ElasticGPUClaim of that name was not made for the pod's ResourceClaim";
  } else if (claim->status.phase == phase::kLost) {
    demand.later = prefix + "it is Lost" + boundMessage(*claim);
  } else {
    const auto device = deviceOf(context_.stores, *claim);
    if (!device || reconcile::canRollBackIntent(context_.stores, context_.waiting.chosen, *claim, *device))
      return addOpen(*claim, device, demand);
    const auto& node = device->spec.nodeName;
    if (device->metadata.deleting()) {
      demand.later = prefix + "its device is being released";
    } else if (isLeft(*device)) {
      demand.later = prefix + "it is leaving its device: " + device->status.message;
    } else if (v1alpha::isOnAnyNode(*device)) {
      if (claim->status.phase != phase::kBound) demand.later = prefix + "it is not bound yet" + boundMessage(*claim);
    } else if (!demand.node.empty() && demand.node != node) {
      demand.never =
          "claim " + demand.fixedBy + " is on node " + demand.node + ", claim " + key.name + " on node " + node;
    } else {
      demand.node = node;
      demand.fixedBy = key.name;
    }
  }
}

void DemandReader::addOpen(const cache::Claim& claim, const GpuPtr& device, PodDemand& demand) {
  const auto prefix = "claim " + claim.metadata.name + ": ";
  if (!device && takesDevice(context_.stores, claim)) {
    demand.later = prefix + "it waits for an existing device" + boundMessage(claim);
    return;
  }
  const auto asked = parts_.resolver.resolve(claim);
  if (asked.later) {
    demand.later = prefix + "its provisioner is being queried";
  } else if (!asked.ok()) {
    (asked.isSpecValid ? demand.later : demand.never) = prefix + asked.reason + ": " + asked.message;
  } else if (const auto refusal = context_.waiting.provisioners.refusal(claim.metadata.uid); !refusal.empty()) {
    demand.later = prefix + refusal;
  } else if (!device && !isDecidedByPod(context_.stores, claim)) {
    demand.later = prefix + "it is not bound yet" + boundMessage(claim);
  } else {
    demand.asks.push_back(asked.of(claim));
    demand.otherwise.push_back(asked.otherwise);
    if (device) demand.devices.push_back(device->metadata.name);
  }
}

}  // namespace egpu::reconcile
