// What becomes of a device whose claim asks for other amounts: how much it would have of the cards that it is on. The one judgement
// of resizes, of real ones (cache/resizes.cpp) and of those that are only tried (what_if.h). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controller/scheduler/decide.h"
#include "controller/scheduler/quota/book.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::scheduler {

/// A resize, card by card.
struct Resizing {
  struct OfCard {
    std::string card;
    Amount available;  ///< before; negative if the card is overdrawn
    Amount old;
    std::optional<Amount> wanted;  ///< charged; nothing: no card of this kind can hold it, or it asks for other cards
    /// available + old − new; meaningless without `wanted`.
    Amount left() const {
      const Amount w = wanted.value_or(Amount{});
      return {available.core + old.core - w.core, available.memory + old.memory - w.memory};
    }
    bool operator==(const OfCard&) const = default;
  };
  std::string claim;
  std::string node;
  bool inPlace = false;
  std::vector<OfCard> cards;          ///< in the device's order
  std::vector<Placement> placements;  ///< if in place: what it would have of each
  std::string why;  ///< if not in place, or of one that waits and is not placed now, for people; may be empty
  std::optional<QuotaExcess> excess;  ///< if not in place: quotas are why
  std::string refused;                ///< not even asked: its class, or what gives it to it, does not allow resizes
  std::string smallestChange;         ///< if not in place; may be empty
  Decision elsewhere;                 ///< if not in place: where it would go if it gave up what it has
  /// It takes more of some card than it has.
  bool grows() const;
  bool operator==(const Resizing&) const = default;
};

/// `old`: what the device is charged, as the cluster has it, at least one card. It keeps all its cards and their number: on each, of
/// what grows, available + old − new must not be negative; what shrinks always fits, whatever its card, its node and its class's
/// limits have become. Of a split claim whose new total would take fewer cards nothing fits. Claim, excess and elsewhere are left.
Resizing resizeInPlace(const Cluster& cluster, const std::vector<Holding>& old, const Request& request);

/// Why the quotas of the claim's namespace don't let it have what it would have in place; nothing: they do, as they do whatever shrinks.
std::optional<QuotaExcess> excessOf(const Cluster& cluster, const QuotaBook& book, const QuotaClaim& claim,
                                    const Resizing& resizing);

/// What would have to change for what does not fit, "; or "-joined; may be empty.
std::string smallestChangeFor(const Cluster& cluster, const std::vector<Holding>& old, const Request& request);

}  // namespace egpu::scheduler
