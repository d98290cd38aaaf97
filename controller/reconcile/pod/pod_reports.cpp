// PodPlacement: reports on claims that wait for other claims of their pod.
#include <limits>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/pod/placement.h"
#include "controller/reconcile/pod/schedulability.h"

namespace egpu::reconcile {

namespace reason = v1alpha::keys::reason;

namespace {
constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();
}  // namespace

std::string waitText(const core::Pod& pod, const std::string& names) {
  return "waits for " + names + " of pod " + pod.metadata.name + ": all claims of a pod go to one node";
}

std::vector<ConditionUpdate> PodPlacement::waitReports(const core::Pod& pod, const std::vector<UsedClaim>& used,
                                                       const std::string& why) {
  std::vector<const UsedClaim*> open;
  for (const auto& one : used)
    if (!one.device && isDecidedByPod(context_.stores, *one.claim) &&
        context_.waiting.consumers.chooses(context_.stores, *one.claim, pod) &&
        !takesDevice(context_.stores, *one.claim) &&
        context_.waiting.provisioners.refusal(one.claim->metadata.uid).empty() &&
        parts_.resolver.resolve(*one.claim).ok())
      open.push_back(&one);
  std::vector<ConditionUpdate> updates;
  addWaitReports(pod, open, why, updates);
  return updates;
}

void PodPlacement::addWaitReports(const core::Pod& pod, const std::vector<const UsedClaim*>& open,
                                  const std::string& why, std::vector<ConditionUpdate>& updates) const {
  for (const auto* one : open)
    if (reportsOn(pod, *one->claim)) updates.push_back(notBound(*one->claim, reason::kWaitingForConsumer, why));
}

bool PodPlacement::reportsOn(const core::Pod& pod, const cache::Claim& claim) const {
  if (!context_.waiting.consumers.isOldest(context_.stores, claim, pod)) return false;
  const auto* bound = findCondition(claim.status.conditions, kBound);
  const bool ofChoice =
      bound != nullptr && (bound->reason == reason::kNoFit || bound->reason == reason::kQuotaExceeded ||
                           bound->reason == reason::kPreempting);
  return !ofChoice || !anotherWaits(pod, claim, Others::all, kAnyNumber);
}

bool PodPlacement::olderPodReports(const core::Pod& pod, const cache::Claim& claim) const {
  const auto* bound = findCondition(claim.status.conditions, kBound);
  return bound != nullptr && (bound->reason == reason::kNoFit || bound->reason == reason::kQuotaExceeded) &&
         anotherWaits(pod, claim, Others::older, kAnyNumber);
}

bool PodPlacement::plannedByAnother(const core::Pod& pod, const Choice& choice, const cache::Claim& claim) const {
  return claim.status.nominated && choice.open.size() > 1 && anotherWaits(pod, claim, Others::all, 1);
}

bool PodPlacement::anotherWaits(const core::Pod& pod, const cache::Claim& claim, Others which,
                                std::size_t maxOpen) const {
  const auto age = ageOf(pod.metadata);
  bool isLater = false;  // all that follow are younger
  const auto waits = [&](const core::Pod& other) {
    isLater = which == Others::older && !(ageOf(other.metadata) < age);
    if (isLater) return true;
    if (other.metadata.uid == pod.metadata.uid || !isConsumer(context_.stores, other) || !gated(other)) return false;
    const auto open = openClaimsOf(context_.stores, other);
    return open && open->size() <= maxOpen;
  };
  return context_.stores.firstPodByAge(core::keyOf(claim.metadata), waits) && !isLater;
}

}  // namespace egpu::reconcile
