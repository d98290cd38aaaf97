#include "controller/server/claim_pods.h"

#include <algorithm>

#include "controller/reconcile/resourceclaim/bridge.h"
#include "controller/whatif/question/subject.h"

namespace egpu::server {

ClaimPods podsOf(const allocator::AllocationMap& map, const cache::Stores& stores) {
  ClaimPods out;
  const auto add = [&](const std::string& claim) {
    const auto [it, fresh] = out.try_emplace(claim);
    if (!fresh) return;
    for (const auto& pod : stores.podsOfClaim(whatif::claimKeyOf(claim, {})))
      if (reconcile::alive(*pod)) it->second.push_back(core::keyOf(pod->metadata).str());
    std::sort(it->second.begin(), it->second.end());
  };
  for (const auto& node : map.nodes)
    for (const auto& card : node.cards)
      for (const auto& take : card.allocations) add(take.claim);
  for (const auto& device : map.remote)
    if (!device.claim.empty()) add(device.claim);
  return out;
}

}  // namespace egpu::server
