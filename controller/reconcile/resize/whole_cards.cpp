#include "controller/reconcile/resize/whole_cards.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "api/v1alpha/quantity.h"
#include "api/v1alpha/size.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/claim/resolve.h"
#include "controller/scheduler/request.h"

namespace egpu::reconcile {

namespace {

constexpr int64_t kWholeCore = 1000;

/// Returns the requests from which the device's amounts were made.
const core::StringMap& requestsOf(const cache::Claim& claim, const cache::Gpu& device) {
  if (device.spec.target) return device.spec.target->requests;
  if (!claim.status.requests.empty()) return claim.status.requests;
  for (const auto& alternative : claim.spec.firstAvailable)
    if (alternative.name == device.spec.alternative) return alternative.requests;
  return claim.spec.requests;
}

/// Returns the charge for this memory, in the ratio of the share: a class with memoryOvercommit charges less than it
/// grants.
int64_t chargedInProportion(int64_t memory, const v1alpha::DeviceCard& share) {
  if (share.chargedMemory == share.memory || share.memory <= 0) return memory;
  return static_cast<int64_t>((static_cast<__int128>(memory) * share.chargedMemory + share.memory - 1) / share.memory);
}

bool takesWholeCard(const cache::Stores& stores, const cache::Gpu& device) {
  const auto& ref = device.spec.claimRef;
  const auto claim = ref ? stores.claims.get({ref->namespace_, ref->name}) : nullptr;
  return claim && claim->metadata.uid == ref->uid && takesWholeCards(*claim, device);
}

}  // namespace

bool takesWholeCards(const cache::Claim& claim, const cache::Gpu& device) {
  const auto& cards = v1alpha::cardsInForce(device);
  const auto isWhole = [](const auto& card) {
    return card.core == kWholeCore && card.chargedCore == kWholeCore && card.slots.empty();
  };
  if (cards.empty() || device.spec.adminAccess || !std::all_of(cards.begin(), cards.end(), isWhole)) return false;
  // A claim that named the device requests nothing: the source of the device decides.
  if (device.metadata.name != deviceNameFor(claim))
    return device.spec.source && device.spec.source->kind == v1alpha::SourceKind::physicalGPU;
  auto asked = claim;
  asked.spec.requests = requestsOf(claim, device);
  asked.spec.firstAvailable.clear();
  const auto request = scheduler::makeRequest(asked, classOfDevice(device));
  const auto* made = std::get_if<scheduler::Request>(&request);
  return made != nullptr && (made->wholeCards || made->memoryFromCore);
}

std::optional<v1alpha::DeviceSize> sizeOfItsCards(const cache::Stores& stores, const cache::Claim& claim,
                                                  const cache::Gpu& device) {
  auto cards = v1alpha::cardsWanted(device);
  bool differs = false;
  for (auto& share : cards) {
    const auto card = stores.cards.get({"", share.name});
    if (!card || card->metadata.deleting() || card->spec.card->memory == share.memory) continue;
    share.chargedMemory = chargedInProportion(card->spec.card->memory, share);
    share.memory = card->spec.card->memory;
    differs = true;
  }
  if (!differs || !takesWholeCards(claim, device)) return std::nullopt;
  return v1alpha::DeviceSize{v1alpha::targetNumber(device) + 1, requestsOf(claim, device), std::move(cards)};
}

bool changesMemoryOnly(const cache::Gpu& device) {
  const auto& wanted = v1alpha::cardsWanted(device);
  return std::equal(wanted.begin(), wanted.end(), v1alpha::cardsInForce(device).begin(),
                    [](const auto& a, const auto& b) { return a.core == kWholeCore && b.core == kWholeCore; });
}

int64_t overdrawnMemory(const cache::Stores& stores, const cache::Gpu& card) {
  const int64_t has = card.spec.card->memory;
  int64_t sum = 0;
  for (const auto& [uid, entry] : card.spec.allocations) sum += entry.memory;
  if (sum <= has) return 0;
  for (const auto& device : stores.devicesOnCard(card.metadata.name)) {
    const auto entry = card.spec.allocations.find(device->metadata.uid);
    if (entry != card.spec.allocations.end() && entry->second.memory > has && takesWholeCard(stores, *device))
      sum -= entry->second.memory - has;
  }
  return std::max<int64_t>(0, sum - has);
}

std::string overdrawnText(const cache::Gpu& card, int64_t missing) {
  return "card " + card.metadata.name + " on node " + card.spec.card->nodeName + " has " +
         v1alpha::formatBytes(card.spec.card->memory) + " of usable memory, " + v1alpha::formatBytes(missing) +
         " less than the shares on it hold: containers are refused once it is full; recreate a claim that has a share "
         "of it with less, or restore the card's memory (ECC, driver)";
}

}  // namespace egpu::reconcile
