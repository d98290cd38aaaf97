// Fragmentation gradient descent as published (Weng et al., USENIX ATC '23), for comparison only: it knows the trace's
// distribution beforehand.
//
// Typical pods are the trace's classes by descending count until they are at least 95 % of the pods. F(node) = Σ over
// typical pods of their part · the idle capacity of the node that such a pod cannot use. That is all idle capacity if
// the pod needs no card, may not run on the node, or finds too little CPU or too few cards; otherwise it is the
// capacity of the cards with less free than the pod needs. A node's score is ⌊100 · sigmoid((F before − F after) ÷
// 1000)⌋. A part of a card is tried on each card.
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

  double fragmentsOf(const ScoredNode& state) const override;
  double score(const ScoredNode& before, const ScoredNode& after) const override;

  std::vector<Typical> typical_;
};

}  // namespace egpu::bench::openb
