// What a copy of a request, the rest of a card and a type of card are worth now: what the fragmentation policy weighs
// nodes by. Made from the demand that was learned and from what is free, now and then; a value that does not change.
//
// All amounts are shares of cards in thousandths (milli-cards); a request's is the larger of its shares of core and
// memory. q(t) is class t's part of the volume that is asked for. A part 200 ÷ (200 + weight of what was seen) of it is
// kept for what is not known yet: whole nodes of each kind, by the cards they have.
//
//   scarcity of t    ρ = (n + 2·√n) ÷ copies of t that fit now
//                    n: the copies of t that are expected until everything is full, those of classes u that need at
//                    least what t needs, and so can only go where t can, among them: Σ q(u) · all that is free ÷ size
//                    of t. 2·√n: two standard deviations of a count
//   worth of a copy  k · (min(ρ, 2) − ½)²₊ · √q(t) · size of t,  k = ½ for one card and 2 for several
//                    What is not scarce costs nothing; sets of several cards, that can't be put together again, cost
//                    more.
//   rest of a card   twice its worth for the shares that are asked for (card_worth.h)
//   pressure on a    Σ over the sets M of types that requests confine themselves to and that contain it, of
//   type of card     min(2, part of the volume confined to M ÷ M's part of what is free)
//
// The constants hold for every cluster; bench/openb.cpp measures them.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "controller/scheduler/fragmentation/card_worth.h"
#include "controller/scheduler/fragmentation/demand_classes.h"
#include "controller/scheduler/fragmentation/fit_counts.h"
#include "controller/scheduler/state/demand.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler::fragmentation {

class Prices {
 public:
  static constexpr std::size_t kMostShapes = 96;  ///< those of which a copy is worth most

  /// NodeStates must be up to date; each state of a node costs once. `before` spares working out again what depends on
  /// the demand alone.
  Prices(const Cluster::State& state, const NodeStates& nodeStates, const Demand& demand, const Prices* before);

  /// The requests a copy of which is worth something, and what, in milli-cards.
  const std::vector<DemandShape>& shapes() const { return shapes_; }
  const std::vector<double>& perCopy() const { return perCopy_; }
  /// A healthy card with so much free, in milli-cards: 0 … 2000. A type that came later is worth nothing.
  int32_t cardWorth(TypeId type, int64_t freeShare) const;
  /// Per milli-card of this type that is given away.
  double pressure(TypeId type) const { return type < pressure_.size() ? pressure_[type] : 0; }

  /// Whether what is asked for, by volume, or what is free has changed by a tenth. NodeStates must be up to date.
  bool outdated(const Cluster::State& state, const NodeStates& nodeStates, const Demand& demand) const;
  bool knowsTypes(std::size_t types) const { return types <= types_; }

 private:
  struct ClassVolume {
    double each = 0;  ///< milli-cards of one request; 0 of what takes no cards or can't have them here
    double part = 0;  ///< of all that is asked for
  };
  /// How much of what is asked for, by volume, is not what asked_ says: 0 … 1.
  double moved(const Cluster::State& state, const std::vector<double>& cards, const Demand& demand) const;

  void priceCards(const Cluster::State& state, const std::vector<DemandClass>& wanted);
  void priceTypes(const Supply& supply, const std::vector<DemandClass>& wanted);
  void priceCopies(const NodeStates& nodeStates, std::vector<DemandClass>& wanted);

  std::size_t types_ = 0;
  std::vector<DemandShape> shapes_;
  std::vector<double> perCopy_;
  std::vector<std::shared_ptr<const CardWorth>> cardWorth_;  // by type
  std::vector<double> pressure_;
  std::unordered_map<std::size_t, ClassVolume> asked_;  // by demandHash; when cardWorth_ was made
  double free_ = 0;                                     // milli-cards
};

}  // namespace egpu::scheduler::fragmentation
