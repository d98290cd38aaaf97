// How well a request goes onto a node: what it takes away from what the node is worth (prices.h), once the card policy
// has chosen its cards. Internal to scheduler/.
//
//   worth(node) = Σ over the priced requests of (copies that fit · worth of a copy)
//               + Σ over its cards of their rests' worth
//   loss        = worth before − worth after + Σ over the given cards of (share · pressure on their type)
//   score       = ⌊−loss ÷ 80⌋
//
// Small differences do not count, so that of nearly equal nodes the lowest name is filled first and others stay whole.
#pragma once

#include <vector>

#include "controller/scheduler/choice/card_choice.h"
#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/fragmentation/prices.h"
#include "controller/scheduler/fragmentation/scores.h"

namespace egpu::scheduler::fragmentation {

/// Prices and what is counted under them, kept together from one decision to the next.
struct Counting {
  explicit Counting(std::shared_ptr<const Prices> of) : prices(std::move(of)), copies(prices->shapes()) {}
  std::shared_ptr<const Prices> prices;
  FitCounts copies;
  // Room to work in, so that a decision need not allocate.
  std::vector<CardChoice::Pick> picks;
  Parts partsAfter;
};

class NodeScorer : public Judge {
 public:
  static constexpr float kStep = 80;  ///< milli-cards of loss per point

  /// All of them must outlive it.
  NodeScorer(const Cluster::State& state, const Request& request, CardChoice& cards, const CardPolicy& policy,
             Counting& counting);

  FreeRoom leastOn(TypeId type) override;
  void appraise(KnownState& state) override;
  Score judge(NodeId node, const KnownState& state, uint16_t& chosen) override;
  bool byStateAlone() const override { return byStateAlone_; }

 private:
  float worthOf(const NodeAmount& free, const Parts& parts, int32_t rests) const;
  int32_t restOf(const CardState& card) const;
  float pressureOn(const CardState& card, const Amount& charged) const;
  static Score scoreOf(float loss);
  /// Of a request for one card that is not divided: which of the node's healthy cards it is given.
  bool choose(const NodeRecord& node, uint16_t& chosen);
  Score judgeOne(const KnownState& before, const CardState& card);
  Score judgeSeveral(const NodeRecord& node, const KnownState& before);

  const Cluster::State& state_;
  const Request& request_;
  CardChoice& cards_;
  Counting& counting_;
  bool byStateAlone_, oneCard_;
  Needs& needs_;
};

}  // namespace egpu::scheduler::fragmentation
