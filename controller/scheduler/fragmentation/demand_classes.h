// Demand and supply in the form from which prices are computed. Internal to fragmentation/.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/scheduler/fragmentation/fit_counts.h"
#include "controller/scheduler/fragmentation/node_states.h"
#include "controller/scheduler/state/demand.h"

namespace egpu::scheduler::fragmentation {

/// A set of card types. All types from the 64th on share one bit.
using TypeSet = uint64_t;
inline TypeSet only(TypeId type) { return TypeSet{1} << (type < 63 ? type : 63); }

/// Free capacity on the schedulable nodes.
struct Supply {
  Supply(const Cluster::State& state, const NodeStates& nodeStates);

  std::vector<double> cards;  ///< number of healthy cards, by type
  std::vector<double> free;   ///< free milli-cards, by type
  double allFree = 0;         ///< milli-cards
  TypeSet all = 0;            ///< types that have cards
};

/// A class of equal requests.
struct DemandClass {
  DemandShape shape;
  TypeSet types = 0;     ///< types whose empty cards could hold it
  double size = 0;       ///< milli-cards on each of its cards
  double weight = 0;     ///< frequency of the requests
  double part = 0;       ///< share of the total volume, once known
  std::size_t hash = 0;  ///< demandHash(); 0 for assumed demand
  double volume() const { return weight * volumeEach(); }
  double volumeEach() const { return size * static_cast<double>(shape.cards); }  ///< milli-cards
};

/// Sets all fields except weight, part and hash. Returns false if the request has no cards or fits no card type that is
/// present. `cards`: number of healthy cards, by type.
bool demandClassOf(const Cluster::State& state, const std::vector<double>& cards, const Request& request,
                   DemandClass& out);
/// Returns the classes with cards that fit present card types, at most the 256 heaviest. Their parts sum to 1.
std::vector<DemandClass> demandClassesOf(const Cluster::State& state, const std::vector<double>& cards,
                                         const Demand& demand);
/// Returns classes for whole nodes of each kind, at most 64 kinds, with parts by number of cards that sum to 1. Nodes
/// are of one kind if they would be equal when empty.
std::vector<DemandClass> wholeNodes(const Cluster::State& state, const NodeStates& nodeStates);

/// Returns for each class the sum of the parts of all classes that need at least as much, including itself. A node that
/// holds a copy of such a class also holds one of this class, so they compete for the same nodes. O(classes²).
std::vector<double> partsConfinedTo(const std::vector<DemandClass>& wanted);

/// Returns the larger of the shares of core and memory of a card, in milli-cards, rounded up.
int64_t shareOfCard(const Amount& amount, const CardType& type);

}  // namespace egpu::scheduler::fragmentation
