// Fragmentation gradient descent as published (Weng et al., USENIX ATC '23), for comparison only: it is given the
// trace's own distribution.
//
// Typical pods are the trace's classes by descending count until they are at least 95 % of it. F(node) = Σ over them of
// their part · what the node has idle that such a pod could not use: everything, if it needs no card, may not run here,
// or lacks CPU or cards; else the cards with less free than it needs. A pod goes where ⌊100 · sigmoid((F before − F
// after) ÷ 1000)⌋ is highest; of equal nodes to the lowest rank. A part of a card is tried on each card.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/openb/replay.h"

namespace egpu::bench::openb {

class Fgd : public Placer {
 public:
  explicit Fgd(const Trace& trace);
  bool place(const Pod& pod) override;

 private:
  using Models = uint64_t;  // bit per model
  struct Class {
    int64_t cpuMilli = 0, memoryMib = 0, cards = 0, milli = 0;
    Models models = 0;
    bool operator==(const Class&) const = default;
  };
  struct Typical {
    Class what;
    double part = 0;
  };
  struct State {
    int64_t cpuMilli = 0, memoryMib = 0;
    Models model = 0;
    std::vector<int64_t> free;  // by card
    int64_t changes = 0;
    double fragments = 0;  // F
  };
  struct Score {
    int64_t changes = -1;  // of the node when it was worked out
    int32_t score = -1;    // −1: does not fit
    int32_t card = 0;
  };

  double fragmentsOf(const State& state) const;
  static bool fits(const State& state, const Class& pod);
  static void take(State& state, const Class& pod, std::size_t card);
  Score scoreOn(const State& state, const Class& pod) const;

  const Trace& trace_;
  std::vector<Class> classes_;
  std::vector<std::size_t> classOf_;  // by pod
  std::vector<Typical> typical_;
  std::vector<State> nodes_;                // by rank
  std::vector<std::vector<Score>> scores_;  // by class and node
};

}  // namespace egpu::bench::openb
