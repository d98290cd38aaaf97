// Claims of whole cards get all memory of their cards. A driver that reserves more, or ECC switched on or off, changes it. Shares
// keep the amounts that they asked for: where the card has less than they hold, conditions of the card and of the claims report it.
#pragma once

#include <optional>
#include <string>

#include "controller/cache/stores.h"

namespace egpu::reconcile {

/// Whether the device was made for a request of whole cards, without an amount of memory.
bool takesWholeCards(const cache::Claim& claim, const cache::Gpu& device);

/// Size that the device of such a claim is to have: its cards with the memory that they have now. nullopt: it has that, is on its
/// way to it, or takes no whole cards.
std::optional<v1alpha::DeviceSize> sizeOfItsCards(const cache::Stores& stores, const cache::Claim& claim,
                                                  const cache::Gpu& device);

/// Whether the target differs from the amounts in force in the memory of whole cards alone.
bool changesMemoryOnly(const cache::Gpu& device);

/// Bytes that the card's entries have above its memory; 0: all fit. A device that takes the whole card counts with the memory of
/// the card.
int64_t overdrawnMemory(const cache::Stores& stores, const cache::Gpu& card);

/// For people: which card, how much is missing, what to do.
std::string overdrawnText(const cache::Gpu& card, int64_t missing);

}  // namespace egpu::reconcile
