// What is asked for and what there is, in the terms that prices are made in. Internal to fragmentation/.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/scheduler/fragmentation/fit_counts.h"
#include "controller/scheduler/fragmentation/node_states.h"
#include "controller/scheduler/state/demand.h"

namespace egpu::scheduler::fragmentation {

/// A set of types of card. Types beyond the 63rd are one.
using TypeSet = uint64_t;
inline TypeSet only(TypeId type) { return TypeSet{1} << (type < 63 ? type : 63); }

/// What is free on the nodes that are offered.
struct Supply {
  Supply(const Cluster::State& state, const NodeStates& nodeStates);

  std::vector<double> cards;  ///< by type: how many healthy ones
  std::vector<double> free;   ///< by type: milli-cards
  double allFree = 0;         ///< milli-cards
  TypeSet all = 0;            ///< types of which there are cards
};

/// A class of requests.
struct DemandClass {
  DemandShape shape;
  TypeSet types = 0;     ///< that could hold it, were they empty
  double size = 0;       ///< milli-cards of each of its cards
  double weight = 0;     ///< how often it is asked for
  double part = 0;       ///< of the volume, once known
  std::size_t hash = 0;  ///< demandHash; 0 of what is assumed
  double volume() const { return weight * volumeEach(); }
  double volumeEach() const { return size * static_cast<double>(shape.cards); }  ///< milli-cards
};

/// False if it takes no card or no card here could ever hold it. Without weight, part and hash.
/// `cards`: how many healthy ones there are, by type.
bool demandClassOf(const Cluster::State& state, const std::vector<double>& cards, const Request& request,
                   DemandClass& out);
/// The classes that take cards and could have them here, at most 256: the heaviest. Their `part`s add up to 1.
std::vector<DemandClass> demandClassesOf(const Cluster::State& state, const std::vector<double>& cards,
                                         const Demand& demand);
/// Whole nodes of each kind, at most 64 kinds; parts by the cards they have, adding up to 1. Of one kind are nodes that
/// would be alike if they were empty.
std::vector<DemandClass> wholeNodes(const Cluster::State& state, const NodeStates& nodeStates);

/// Per class the parts, added up in their order, of those that need at least what it needs (itself among them):
/// whatever holds a copy of them holds one of it, so they can only go where it can. O(classes²).
std::vector<double> partsConfinedTo(const std::vector<DemandClass>& wanted);

/// The larger of an amount's shares of a card's core and memory, in milli-cards, rounded up.
int64_t shareOfCard(const Amount& amount, const CardType& type);

}  // namespace egpu::scheduler::fragmentation
