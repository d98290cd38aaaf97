// Amounts of a device on its cards, from spec.cards or from a resize. Standard library only.
//
// Steps of a resize: spec.target states the new amounts; the cards' ledger entries grow to the maximum of old and new;
// the plugin applies the target; status.inForce states it; the entries shrink to it. So an entry is never below the
// amounts in force.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "api/v1alpha/types.h"

namespace egpu::v1alpha {

namespace internal {
/// Returns the cards of a size, or null if they are not the cards in spec.cards.
inline const std::vector<DeviceCard>* cardsOf(const HeapOptional<DeviceSize>& size, const ElasticGPUSpec& spec) {
  const bool same = size && std::equal(size->cards.begin(), size->cards.end(), spec.cards.begin(), spec.cards.end(),
                                       [](const auto& a, const auto& b) { return a.name == b.name; });
  return same ? &size->cards : nullptr;
}
}  // namespace internal

/// Returns the amounts in force, for the cards of spec.cards in that order. Valid as long as the device.
inline const std::vector<DeviceCard>& cardsInForce(const ElasticGPU& device) {
  const auto* cards = internal::cardsOf(device.status.inForce, device.spec);
  return cards != nullptr ? *cards : device.spec.cards;
}
/// Returns the target amounts, in the same order. Valid as long as the device.
inline const std::vector<DeviceCard>& cardsWanted(const ElasticGPU& device) {
  const auto* cards = internal::cardsOf(device.spec.target, device.spec);
  return cards != nullptr ? *cards : cardsInForce(device);
}
/// Number of the current target, counted per device from 1; 0 = none yet.
inline int64_t targetNumber(const ElasticGPU& device) { return device.spec.target ? device.spec.target->number : 0; }
inline int64_t numberInForce(const ElasticGPU& device) {
  return device.status.inForce ? device.status.inForce->number : 0;
}
/// True if the target is not in force yet.
inline bool isResizing(const ElasticGPU& device) { return targetNumber(device) != numberInForce(device); }

/// Minimum of the ledger entry for card `place` of spec.cards: the maximum of the target and the amounts in force.
inline DeviceCard cardCharged(const ElasticGPU& device, std::size_t place) {
  DeviceCard max = cardsWanted(device)[place];
  const auto& now = cardsInForce(device)[place];
  max.chargedCore = std::max(max.chargedCore, now.chargedCore);
  max.chargedMemory = std::max(max.chargedMemory, now.chargedMemory);
  return max;
}

/// True if the device's class allows its claims to change their requests.
inline bool isResizable(const ElasticGPU& device) {
  const auto resizable = device.spec.parameters.find(std::string_view("resizable"));
  return resizable != device.spec.parameters.end() && resizable->second == "true";
}

}  // namespace egpu::v1alpha
