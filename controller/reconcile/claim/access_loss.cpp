#include "controller/reconcile/claim/access_loss.h"

#include <algorithm>

namespace egpu::reconcile {

std::optional<v1alpha::AccessLoss> accessLossOf(const cache::Stores& stores, const cache::Claim& claim,
                                                const cache::Gpu& device) {
  for (const auto& share : device.spec.cards) {
    const auto card = stores.cards.get({"", share.name});
    if (!card) continue;
    const auto loss = card->status.accessLost.find(device.metadata.uid);
    if (loss != card->status.accessLost.end()) return loss->second;
  }
  if (!device.spec.cards.empty() || device.status.accessLost.empty()) return std::nullopt;
  const auto key = core::keyOf(claim.metadata);
  auto pods = stores.podsOfClaim(key);
  for (auto& pod : stores.podsAnnotatedWith(key)) pods.push_back(std::move(pod));
  for (const auto& [node, loss] : device.status.accessLost) {
    const auto runsThere = [name = node](const auto& pod) { return pod->nodeName == name && !pod->finished(); };
    if (std::any_of(pods.begin(), pods.end(), runsThere)) return loss;
  }
  return std::nullopt;
}

}  // namespace egpu::reconcile
