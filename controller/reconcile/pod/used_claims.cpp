#include "controller/reconcile/pod/used_claims.h"

#include <algorithm>
#include <iterator>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/remote.h"

namespace egpu::reconcile {

namespace reason = v1alpha::keys::reason;

std::vector<UsedClaim> claimsWithNode(const std::vector<UsedClaim>& used) {
  std::vector<UsedClaim> placed;
  std::copy_if(used.begin(), used.end(), std::back_inserter(placed),
               [](const auto& one) { return !one.device || !v1alpha::isOnAnyNode(*one.device); });
  return placed;
}

std::vector<ConditionUpdate> nodeUnsuitableReports(const std::vector<UsedClaim>& used, const std::string& message) {
  std::vector<ConditionUpdate> updates;
  for (const auto& one : claimsWithNode(used))
    if (one.device)
      updates.push_back(ConditionUpdate::of(one.claim->metadata, ConditionUpdate::As::resourceClaimNotReady,
                                            reason::kNodeUnsuitable, message));
  return updates;
}

std::optional<Outcome> claimsOnDifferentNodes(const core::Pod& pod, const std::vector<UsedClaim>& used) {
  const UsedClaim* first = nullptr;
  for (const auto& one : used) {
    if (!one.device || v1alpha::isOnAnyNode(*one.device)) continue;
    if (first == nullptr) first = &one;
    const auto& node = first->device->spec.nodeName;
    if (one.device->spec.nodeName == node) continue;
    // Two claims on different nodes never fit one pod.
    return Outcome::done().reports(nodeUnsuitableReports(
        used, "pod " + pod.metadata.name + " can't run: claim " + first->claim->metadata.name + " is on node " + node +
                  ", claim " + one.claim->metadata.name + " on node " + one.device->spec.nodeName));
  }
  return std::nullopt;
}

}  // namespace egpu::reconcile
