// Prices of copies of requests, rests of cards and card types, by which the fragmentation policy scores nodes. They are
// computed from the learned demand and the free capacity from time to time, and are immutable.
//
// All amounts are shares of cards in thousandths (milli-cards); a request's share is the larger of its shares of core
// and memory. q(t) is class t's part of the requested volume. A part 200 ÷ (200 + weight of the observed requests) is
// reserved for unknown demand: whole nodes of each kind, in proportion to their cards.
//
//   scarcity of t    ρ = (n + 2·√n) ÷ copies of t that fit now
//                    n: expected number of copies of t, and of classes u that need at least what t needs and so
//                    compete for the same nodes, until the cluster is full: Σ q(u) · all free ÷ size of t.
//                    2·√n: two standard deviations of a count
//   worth of a copy  k · (min(ρ, 2) − ½)²₊ · √q(t) · size of t,  k = ½ for one card and 2 for several
//                    Capacity that is not scarce costs nothing. Sets of several cards cost more, because they cannot
//                    be put together again.
//   rest of a card   twice its worth for the requested shares (card_worth.h)
//   pressure on a    Σ over the sets M of types to which requests are confined and that contain it, of
//   type of card     min(2, part of the volume confined to M ÷ M's part of the free capacity)
//
// The constants are the same for all clusters; bench/openb.cpp measures them.
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
  static constexpr std::size_t kMaxShapes = 96;  ///< number of priced shapes: those with the highest worth per copy

  /// NodeStates must be up to date; the cost is one evaluation per state. Results that depend only on the demand are
  /// reused from `before` if possible.
  Prices(const Cluster::State& state, const NodeStates& nodeStates, const Demand& demand, const Prices* before);

  /// The requests whose copies have a worth; perCopy() has the worth in milli-cards.
  const std::vector<DemandShape>& shapes() const { return shapes_; }
  const std::vector<double>& perCopy() const { return perCopy_; }
  /// Returns the worth of a healthy card with this free share, in milli-cards: 0 … 2000. Types added later have no
  /// worth.
  int32_t cardWorth(TypeId type, int64_t freeShare) const;
  /// Returns the pressure per allocated milli-card of this type.
  double pressure(TypeId type) const { return type < pressure_.size() ? pressure_[type] : 0; }

  /// True if the demand, by volume, or the free capacity changed by a tenth. NodeStates must be up to date.
  bool outdated(const Cluster::State& state, const NodeStates& nodeStates, const Demand& demand) const;
  bool knowsTypes(std::size_t types) const { return types <= types_; }

 private:
  struct ClassVolume {
    double each = 0;  ///< milli-cards of one request; 0 without cards, or if no present card type fits
    double part = 0;  ///< part of the total demand
  };
  /// Returns the part of the demand, by volume, that differs from asked_: 0 … 1.
  double moved(const Cluster::State& state, const std::vector<double>& cards, const Demand& demand) const;

  void priceCards(const Cluster::State& state, const std::vector<DemandClass>& wanted);
  void priceTypes(const Supply& supply, const std::vector<DemandClass>& wanted);
  void priceCopies(const NodeStates& nodeStates, std::vector<DemandClass>& wanted);

  std::size_t types_ = 0;
  std::vector<DemandShape> shapes_;
  std::vector<double> perCopy_;
  std::vector<std::shared_ptr<const CardWorth>> cardWorth_;  // by type
  std::vector<double> pressure_;
  std::unordered_map<std::size_t, ClassVolume> asked_;  // by demandHash; as of the computation of cardWorth_
  double free_ = 0;                                     // milli-cards
};

}  // namespace egpu::scheduler::fragmentation
