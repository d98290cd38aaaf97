// Policies published by others, for comparison: a pod goes to the node with the highest score, of equal ones to the
// lowest rank. A pod of one card is given the card that makes the score; one of several the first that are whole.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/openb/replay.h"

namespace egpu::bench::openb {

class Scored : public Placer {
 public:
  std::optional<Seat> choose(const Pod& pod, const Where& where) override;
  void take(const Pod& pod, uint64_t id, const Seat& seat) override;
  void giveBack(const Pod& pod, uint64_t id, const Seat& seat) override;

 protected:
  using Models = uint64_t;  // bit per model
  struct Class {
    int64_t cpuMilli = 0, memoryMib = 0, cards = 0, milli = 0;
    Models models = 0;
    bool operator==(const Class&) const = default;
  };
  struct State {
    int64_t cpuMilli = 0, memoryMib = 0;
    Models model = 0;
    std::vector<int64_t> free;  // by card
    int64_t changes = 0;
    double fragments = 0;  // as fragmentsOf()
  };

  explicit Scored(const Trace& trace);
  /// What score() may read of a node instead of working it out each time.
  virtual double fragmentsOf(const State&) const { return 0; }
  /// Of a node on which the pod fits, with what it would take gone.
  virtual double score(const State& before, const State& after) const = 0;
  /// The fragments of every node, once fragmentsOf() can be asked.
  void begin();

  std::vector<Class> classes_;        // of which pods are
  std::vector<std::size_t> classOf_;  // by pod
  std::vector<State> nodes_;          // by rank
  bool snug_ = false;                 // of cards that make equal scores: the one with the least free, else the first

 private:
  struct Score {
    int64_t changes = -1;  // of the node when it was worked out
    bool fits = false;
    double score = 0;
    std::size_t card = 0;
  };

  static bool fits(const State& state, const Class& pod);
  Score scoreOn(const State& state, const Class& pod) const;
  static std::vector<std::size_t> cardsFor(const State& state, const Class& pod, std::size_t first);
  static void change(State& state, const Class& pod, const std::vector<std::size_t>& cards, int64_t sign);
  std::size_t kindOf(const Pod& pod) const { return classOf_[static_cast<std::size_t>(&pod - trace_.pods.data())]; }
  void changed(std::size_t node, const Class& pod, const std::vector<std::size_t>& cards, int64_t sign);

  const Trace& trace_;
  std::vector<std::vector<Score>> scores_;  // by class and node
};

/// The least that is left of a node, of CPU and of cards in equal parts, each of the most that a node has, in hundredths;
/// of its cards the one with the least left.
class BestFit : public Scored {
 public:
  explicit BestFit(const Trace& trace);

 private:
  double score(const State& before, const State& after) const override;
  double mostCpu_ = 1, mostMilli_ = 1;  // of one node
};

}  // namespace egpu::bench::openb
