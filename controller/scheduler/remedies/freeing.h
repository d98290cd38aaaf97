// What would have to be freed on a node for a request to fit there. Internal to scheduler/.
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
  /// What is to be freed, and how much that is of the cards, in millionths; a claim counts a little, so that fewer are
  /// preferred.
  struct Freed {
    int64_t cost = 0;
    std::vector<Remedy::CardRoom> rooms;  ///< of cards that lack something
  };

  /// All of them must outlive it.
  Freeing(const Cluster::State& state, const Request& request, Needs& needs);

  /// On the node's cards; nothing if the request could not fit there were they all empty. The least, but of a divided
  /// total: there, cards are freed one after the other, the cheapest per step first.
  std::optional<Freed> on(const NodeRecord& node);
  /// A card that could hold (a part of) the request if it were empty.
  bool couldServe(CardId id);

 private:
  using Cards = std::vector<CardId>;
  std::optional<Freed> each(const Cards& cards);
  std::optional<Freed> divided(const Cards& cards, bool all);
  /// A card that may get a part of a total, in steps.
  struct Share {
    CardId card = kNone;
    int64_t now = 0, empty = 0, part = 0;  ///< what it can hold now, and empty; and what it must hold
    int64_t free = 0;            ///< what it could hold if it were not at the limit of claims; `now` if it is not
    int64_t gain = 0, cost = 0;  ///< of freeing what would be needed most
  };
  /// The cards that may get parts, those with the most room first; all: each of them must. Nothing: they can't.
  std::optional<std::vector<Share>> sharesOf(const Cards& cards, bool all) const;
  std::pair<int64_t, Remedy::CardRoom> missing(const Share& share, int64_t part) const;
  /// Takes back what is freed beyond the total, the dearest first.
  void trim(std::vector<Share>& shares, int64_t lacking, bool all) const;
  std::pair<int64_t, Remedy::CardRoom> missing(CardId id, const Amount& charged) const;
  void add(Freed& freed, const std::pair<int64_t, Remedy::CardRoom>& missing) const;

  const Cluster::State& state_;
  const Request& request_;
  Needs& needs_;
  std::optional<SplitTotal> total_;
  const CardPolicy* const policy_;
};

}  // namespace egpu::scheduler
