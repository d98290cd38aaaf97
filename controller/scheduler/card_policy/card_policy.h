// Card policies: which of the fitting cards of the chosen node are given. Ties: the lower index, then uuid.
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
struct CardCandidate {
  CardId card = kNone;
  uint32_t place = 0;  ///< position among the node's cards; used by its topology
  Amount used, capacity;
};

/// The candidates of a policy.
struct Offer {
  const NodeRecord& node;
  std::span<const CardCandidate> cards;       ///< in the node's order; at least `wanted`
  std::size_t wanted = 1;                     ///< number of cards to give; unused for a total to be divided
  int64_t memoryWeight = kUsualMemoryWeight;  ///< Request::memoryWeight
  /// Positions in `cards`, fewer than `wanted`: always chosen, and first. Empty for divide().
  std::span<const uint32_t> required{};
};

inline bool isRequired(const Offer& offer, uint32_t position) {
  return std::find(offer.required.begin(), offer.required.end(), position) != offer.required.end();
}

/// The choice of a policy.
struct Chosen {
  std::vector<uint32_t> cards;  ///< positions in Offer::cards, in the order of the result
  int64_t linkGap = 0;          ///< Decision::linkGap
};

struct CardPolicy {
  std::string_view name;
  /// Returns false if no set of the offered cards is allowed; never if takesAny.
  bool (*choose)(const Offer&, Chosen&);
  /// Chooses the cards over which a total is divided: a set of division.best() quality or, unless takesAny, the best of
  /// the policy's own sets. The division has the offer's cards; the choice is in the order of division.byCapacity().
  bool (*divide)(const Offer&, const Division& division, Chosen&);
  /// Any set of fitting cards of the right size is allowed. Otherwise a node with enough fitting cards may still not
  /// fit.
  bool takesAny = true;
  /// The choice depends on the links between cards: it can differ between nodes with equal free capacity.
  bool seesLinks = false;
  /// The policy uses load scores (load_score.h). The class can set their weights.
  bool byLoad = false;
  /// Machine whose fixed sets apply on every node; `other`: those of the machine that the node is recognised as.
  topology::Machine machine = topology::Machine::other;
  /// The policy keeps large free parts of cards. For MIG instances, the cards with the least loss of placements
  /// (mig/placement.h) are offered to it, so that it only decides between equal ones.
  bool byPlacementLoss = false;
  topology::Machine machineOf(const NodeRecord& node) const {
    return machine == topology::Machine::other ? node.machine : machine;
  }
};

/// Returns null for an unknown policy. Also accepts names such as "static dgx1-pascal": static.h.
const CardPolicy* findCardPolicy(std::string_view name);
/// Returns all valid values of cardPolicy, sorted.
std::vector<std::string_view> cardPolicyNames();

}  // namespace egpu::scheduler
