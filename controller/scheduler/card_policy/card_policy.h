// The card tier: which of the fitting cards of the chosen node are given. Equally good: lower index first, then uuid.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "controller/scheduler/choice/split.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

/// A card that can hold its part.
struct Candidate {
  CardId card = kNone;
  uint32_t place = 0;  ///< among the node's cards; what the node's topology calls it
  Amount used, capacity;
};

/// What a policy chooses from.
struct Offer {
  const NodeRecord& node;
  std::span<const Candidate> cards;           ///< in the node's order; at least `wanted`
  std::size_t wanted = 1;                     ///< how many are to be given; of a divided total it is not used
  int64_t memoryWeight = kUsualMemoryWeight;  ///< Request::memoryWeight
  /// Positions in `cards`, fewer than `wanted`: these are given first, whatever the policy prefers. Empty for divide().
  std::span<const uint32_t> required{};
};

inline bool isRequired(const Offer& offer, uint32_t position) {
  return std::find(offer.required.begin(), offer.required.end(), position) != offer.required.end();
}

/// What it chooses.
struct Chosen {
  std::vector<uint32_t> cards;  ///< positions in Offer::cards, in the order in which the cards are given
  int64_t linkGap = 0;          ///< Decision::linkGap
};

struct CardPolicy {
  std::string_view name;
  /// False if no cards of the offer will do; never for a policy that takes any.
  bool (*choose)(const Offer&, Chosen&);
  /// Which cards a total is divided over: a set of division.best() quality, or, of a policy that does not take any, the
  /// best of its own. The division's cards are the offer's; chosen in the order of division.byRoom().
  bool (*divide)(const Offer&, const Division& division, Chosen&);
  /// Whatever cards fit, so many of them will do, or are enough to be divided over. Otherwise a node with enough
  /// fitting cards may still not be one.
  bool takesAny = true;
  /// Links between cards count: of two nodes whose cards have the same free, different ones may be given.
  bool seesLinks = false;
  /// It goes by load scores (load_score.h), whose weights the class may set.
  bool byLoad = false;
  /// Machine whose fixed sets are given on every node; `other`: those of the machine that the node is recognised as.
  topology::Machine machine = topology::Machine::other;
  topology::Machine machineOf(const NodeRecord& node) const {
    return machine == topology::Machine::other ? node.machine : machine;
  }
};

/// Null if there is no such policy. Besides the names below, "static dgx1-pascal" and such: static.h.
const CardPolicy* findCardPolicy(std::string_view name);
/// All that cardPolicy may be, sorted.
std::vector<std::string_view> cardPolicyNames();

}  // namespace egpu::scheduler
