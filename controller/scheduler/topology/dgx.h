// Fixed sets of cards of DGX machines: only these well-wired sets are given, whatever cards are free.
//
//   DGX-1, Pascal   single cards; 0-2 1-3 4-6 5-7; 0-3 4-7; all 8
//   DGX-1, Volta    single cards; 0-3 1-2 4-7 5-6; 0-3 4-7; all 8
//   DGX-2           single cards; 2, 4, 8 or 16 aligned: 0-1 2-3 …, 0-3 4-7 …, 0-7 8-15, all 16
//
// There are no sets of other sizes, and none on other machines.
#pragma once

#include <span>

#include "api/v1alpha/types.h"
#include "controller/scheduler/topology/best_effort.h"

namespace egpu::scheduler::topology {

enum class Machine : uint8_t { other, dgx1Pascal, dgx1Volta, dgx2 };

/// Recognises a machine by the models and links of all of a node's cards, in the order of their indexes:
///   dgx1Pascal  8 cards 0 … 7, models with "P100": NVLinks exactly within 0-3, within 4-7 and between i and i + 4
///   dgx1Volta   8 cards 0 … 7, models with "V100": two NVLinks for 03 04 12 15 23 47 56 67, one for 01 02 13 26 37 45
///               46 57
///   dgx2        16 cards 0 … 15, models with "V100": every card reaches every other through NVSwitches
/// A node with a missing card or a broken link is `other`.
Machine recogniseMachine(std::span<const Site> cards);

/// Returns the sets of a size, lowest cards first.
std::span<const Set> fixedSets(Machine machine, std::size_t size);

/// Returns the first fixed set of the wanted size that is available and has the required cards, or 0.
Set firstFixedSet(Machine machine, const CardSetRequest& wish);

}  // namespace egpu::scheduler::topology
