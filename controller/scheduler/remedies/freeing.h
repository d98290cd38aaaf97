// Computes the capacity to release on a node so that a request fits there. Internal to scheduler/.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/split.h"
#include "controller/scheduler/remedies/remedy.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

class Freeing {
 public:
  /// Capacity to release and its cost: the shares of the cards in millionths, plus one per claim, so that fewer claims
  /// are preferred.
  struct Freed {
    int64_t cost = 0;
    std::vector<Remedy::CardCapacity> shortages;  ///< only cards that lack capacity
  };

  /// The arguments must outlive it.
  Freeing(const Cluster::State& state, const Request& request, Needs& needs);

  /// Returns the least capacity to release on the node's cards; nullopt if even empty cards could not hold the request.
  /// Not minimal for a total to be divided: cards are freed one after the other, by the cost per step.
  std::optional<Freed> on(const NodeRecord& node);
  /// True if the card, when empty, could hold the request or a part of it.
  bool couldServe(CardId id);

 private:
  using Cards = std::vector<CardId>;
  std::optional<Freed> each(const Cards& cards);
  std::optional<Freed> divided(const Cards& cards, bool all);
  /// A card that can get a part of a total. All numbers count steps of the total, except `cost`.
  struct CardPart {
    CardId card = kNone;
    int64_t now = 0, empty = 0, part = 0;  ///< capacity at present, and of the empty card; required part
    int64_t free = 0;                      ///< as `now`, but ignoring the card's limit of claims
    int64_t gain = 0, cost = 0;            ///< gain and cost of releasing all that could be needed
  };
  /// Returns the cards that can get parts, the largest capacity first. all: each card must get one. nullopt:
  /// impossible.
  std::optional<std::vector<CardPart>> sharesOf(const Cards& cards, bool all) const;
  std::pair<int64_t, Remedy::CardCapacity> missing(const CardPart& share, int64_t part) const;
  /// True if the card's shares have another isolation mode: no part of it can be released for the request, only all.
  bool isBlocked(CardId id) const { return hasOtherMode(state_.cards[id], mode_); }
  /// Reduces releases that exceed the total, the most expensive first.
  void trim(std::vector<CardPart>& shares, int64_t lacking, bool all) const;
  std::pair<int64_t, Remedy::CardCapacity> missing(CardId id, const Amount& charged) const;
  void add(Freed& freed, const std::pair<int64_t, Remedy::CardCapacity>& missing) const;

  const Cluster::State& state_;
  const Request& request_;
  Needs& needs_;
  const ModeId mode_;  ///< of the request
  std::optional<SplitTotal> total_;
  const CardPolicy* const policy_;
};

}  // namespace egpu::scheduler
