#include "controller/whatif/answer/typical_request.h"

#include <cstdint>
#include <utility>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/class/class.h"

namespace egpu::whatif {

core::StringMap UsualSize::wholeCard() {
  return {{std::string(v1alpha::keys::kGroup) + "/" + std::string(v1alpha::keys::kGpu), "1"}};
}

std::map<std::string, UsualSize, std::less<>> usualSizes(const cache::Stores& stores) {
  std::map<std::string, std::map<core::StringMap, int64_t>, std::less<>> counts;
  stores.classes.forEach([&](const auto& cls) { counts[cls->metadata.name]; });
  const auto byDefault = reconcile::classOf(stores, cache::Claim{}, nullptr);
  stores.claims.forEach([&](const auto& claim) {
    if (claim->spec.requests.empty() || reconcile::isStatic(*claim)) return;
    const auto& named = claim->spec.effectiveClass();
    const auto it = counts.find(named.empty() && byDefault ? byDefault->metadata.name : named);
    if (it != counts.end()) ++it->second[claim->spec.requests];
  });
  std::map<std::string, UsualSize, std::less<>> sizes;
  for (auto& [cls, sizesOfClass] : counts) {
    UsualSize usual;
    int64_t max = 0, all = 0;
    for (const auto& [requests, count] : sizesOfClass) {
      all += count;
      if (count <= max) continue;
      max = count;
      usual.requests = requests;
    }
    if (all == 0) {
      usual.requests = UsualSize::wholeCard();
      usual.of = "a whole card: the class has no claims yet";
    } else {
      usual.of = all == 1 ? "as its only claim" : "the most frequent of its " + std::to_string(all) + " claims";
    }
    sizes.emplace(cls, std::move(usual));
  }
  return sizes;
}

}  // namespace egpu::whatif
