// How much a device has of its cards, and is to have: spec.cards, or what a resize made of it. Standard library only.
//
// A resize in steps: spec.target says what is to be; the cards' entries hold the larger of both; the plugin does it; status.inForce says
// what is; the entries hold that. So an entry is never below what is in force.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "api/v1alpha/types.h"

namespace egpu::v1alpha {

namespace internal {
/// The cards of a size, unless it is not one of this device: other cards than spec.cards has.
inline const std::vector<DeviceCard>* cardsOf(const Rare<DeviceSize>& size, const ElasticGPUSpec& spec) {
  const bool same = size && std::equal(size->cards.begin(), size->cards.end(), spec.cards.begin(), spec.cards.end(),
                                       [](const auto& a, const auto& b) { return a.name == b.name; });
  return same ? &size->cards : nullptr;
}
}  // namespace internal

/// The amounts that a device has now; the cards of spec.cards, in that order. Valid as long as the device.
inline const std::vector<DeviceCard>& cardsInForce(const ElasticGPU& device) {
  const auto* cards = internal::cardsOf(device.status.inForce, device.spec);
  return cards != nullptr ? *cards : device.spec.cards;
}
/// The amounts that it is to have; likewise.
inline const std::vector<DeviceCard>& cardsWanted(const ElasticGPU& device) {
  const auto* cards = internal::cardsOf(device.spec.target, device.spec);
  return cards != nullptr ? *cards : cardsInForce(device);
}
/// Of the targets that it was given; 0 = none yet.
inline int64_t targetNumber(const ElasticGPU& device) { return device.spec.target ? device.spec.target->number : 0; }
inline int64_t numberInForce(const ElasticGPU& device) {
  return device.status.inForce ? device.status.inForce->number : 0;
}
/// What it is to have is not in force yet.
inline bool isResizing(const ElasticGPU& device) { return targetNumber(device) != numberInForce(device); }

/// What its entry on the card of that place must hold at least: the larger of both.
inline DeviceCard cardCharged(const ElasticGPU& device, std::size_t place) {
  DeviceCard most = cardsWanted(device)[place];
  const auto& now = cardsInForce(device)[place];
  most.chargedCore = std::max(most.chargedCore, now.chargedCore);
  most.chargedMemory = std::max(most.chargedMemory, now.chargedMemory);
  return most;
}

/// Whether its class lets the claims that it was made for ask for other amounts.
inline bool isResizable(const ElasticGPU& device) {
  const auto resizable = device.spec.parameters.find(std::string_view("resizable"));
  return resizable != device.spec.parameters.end() && resizable->second == "true";
}

}  // namespace egpu::v1alpha
