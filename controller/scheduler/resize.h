// Decides whether a device can be resized in place: the new amounts on its own cards, or the obstacle. Used both for
// resizes (allocator/allocator.h) and for what-if questions (what_if.h). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controller/scheduler/decide.h"
#include "controller/scheduler/quota/book.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::scheduler {

/// Result of a resize, card by card.
struct Resizing {
  struct OfCard {
    std::string card;
    Amount available;  ///< free before the resize; negative if the card is overdrawn
    Amount old;
    std::optional<Amount> wanted;  ///< charged; nullopt: no such card can hold the amount, or other cards are needed
    /// available + old − wanted; meaningless without `wanted`.
    Amount left() const {
      const Amount w = wanted.value_or(Amount{});
      return {available.core + old.core - w.core, available.memory + old.memory - w.memory};
    }
    bool operator==(const OfCard&) const = default;
  };
  std::string claim;
  std::string node;
  bool inPlace = false;
  std::vector<OfCard> cards;          ///< in the order of the device's cards
  std::vector<Placement> placements;  ///< new amounts per card; set if inPlace
  std::string why;  ///< text for people, can be empty: the obstacle, or why a pending claim is not placed
  std::optional<QuotaExcess> excess;  ///< set if quotas are the obstacle
  std::string refused;                ///< set if the claim's class or provisioner does not allow resizes
  std::string smallestChange;         ///< set if not inPlace; can be empty
  Decision elsewhere;                 ///< set if not inPlace: where the claim would go after releasing its cards
  /// True if it needs more of some card than it has.
  bool grows() const;
  bool operator==(const Resizing&) const = default;
};

/// Computes the new amounts. `old`: the device's charges in the cluster, at least one card. The device keeps all its
/// cards: amounts that grow need available + old − new ≥ 0 on each card; amounts that shrink always fit, whatever the
/// card, its node and the class's limits are. A split claim does not fit if its new total needs fewer cards. Does not
/// set `claim`, `excess`, `refused`, `smallestChange` and `elsewhere`.
Resizing resizeInPlace(const Cluster& cluster, const std::vector<Holding>& old, const Request& request);

/// Returns the quota of the claim's namespace that the resize would exceed, or nullopt. Shrinking never exceeds a
/// quota.
std::optional<QuotaExcess> excessOf(const Cluster& cluster, const QuotaBook& book, const QuotaClaim& claim,
                                    const Resizing& resizing);

/// Returns the changes after which the request would fit, joined by "; or "; can be empty.
std::string smallestChangeFor(const Cluster& cluster, const std::vector<Holding>& old, const Request& request);

}  // namespace egpu::scheduler
