// Claims of whole cards get all memory of their cards, which changes if a driver reserves more or ECC is switched.
// Shares keep the amounts that they requested: if the card has less than they hold, conditions of the card and of the
// claims report it.
#pragma once

#include <optional>
#include <string>

#include "controller/cache/stores.h"

namespace egpu::reconcile {

/// True if the device was made for a request of whole cards, without an amount of memory.
bool takesWholeCards(const cache::Claim& claim, const cache::Gpu& device);

/// Returns the size that the device of such a claim must get: its cards with the memory that they have now. nullopt: it
/// has that size, it is its target already, or the device takes no whole cards.
std::optional<v1alpha::DeviceSize> sizeOfItsCards(const cache::Stores& stores, const cache::Claim& claim,
                                                  const cache::Gpu& device);

/// True if the target differs from the amounts in force only in the memory of whole cards.
bool changesMemoryOnly(const cache::Gpu& device);

/// Bytes by which the card's entries exceed its memory; 0: all fit. A device that takes the whole card counts with the
/// memory of the card.
int64_t overdrawnMemory(const cache::Stores& stores, const cache::Gpu& card);

/// Returns a message for people: the card, the missing bytes, and the remedy.
std::string overdrawnText(const cache::Gpu& card, int64_t missing);

}  // namespace egpu::reconcile
