// Fragmentation gradient descent as published (Weng et al., USENIX ATC '23), for comparison only: it is given the
// trace's own distribution.
//
// Typical pods are the trace's classes by descending count until they are at least 95 % of it. F(node) = Σ over them of
// their part · what the node has idle that such a pod could not use: everything, if it needs no card, may not run here,
// or lacks CPU or cards; else the cards with less free than it needs. A node's score is ⌊100 · sigmoid((F before − F
// after) ÷ 1000)⌋. A part of a card is tried on each card.
#pragma once

#include <vector>

#include "bench/openb/scored.h"

namespace egpu::bench::openb {

class Fgd : public Scored {
 public:
  explicit Fgd(const Trace& trace);

 private:
  struct Typical {
    Class what;
    double part = 0;
  };

  double fragmentsOf(const State& state) const override;
  double score(const State& before, const State& after) const override;

  std::vector<Typical> typical_;
};

}  // namespace egpu::bench::openb
