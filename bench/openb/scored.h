// Base of published policies, for comparison: a pod is placed on the node with the highest score, or on the lowest rank
// of equal scores. A pod of one card gets the card that gives the score; a pod of several cards gets the first whole
// cards.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/openb/replay.h"

namespace egpu::bench::openb {

class Scored : public Placer {
 public:
  std::optional<Seat> choose(const TracePod& pod, const Where& where) override;
  void take(const TracePod& pod, uint64_t id, const Seat& seat) override;
  void giveBack(const TracePod& pod, uint64_t id, const Seat& seat) override;

 protected:
  using Models = uint64_t;  // a bit per model
  struct Class {
    int64_t cpuMilli = 0, memoryMib = 0, cards = 0, milli = 0;
    Models models = 0;
    bool operator==(const Class&) const = default;
  };
  struct ScoredNode {
    int64_t cpuMilli = 0, memoryMib = 0;
    Models model = 0;
    std::vector<int64_t> free;  // by card
    int64_t changes = 0;
    double fragments = 0;  // value of fragmentsOf()
  };

  explicit Scored(const Trace& trace);
  /// Returns ScoredNode::fragments, which is cached so that score() does not compute it each time.
  virtual double fragmentsOf(const ScoredNode&) const { return 0; }
  /// Scores a node on which the pod fits; `after` is the state with the pod placed.
  virtual double score(const ScoredNode& before, const ScoredNode& after) const = 0;
  /// Computes the fragments of every node. Subclasses call it at the end of their constructor, when fragmentsOf() has
  /// its data.
  void begin();

  std::vector<Class> classes_;        // distinct requests of pods
  std::vector<std::size_t> classOf_;  // by pod
  std::vector<ScoredNode> nodes_;     // by rank
  bool snug_ = false;  // among cards with equal scores: true takes the one with the least free, false the first

 private:
  struct Score {
    int64_t changes = -1;  // ScoredNode::changes of the node when the score was computed
    bool fits = false;
    double score = 0;
    std::size_t card = 0;
  };

  static bool fits(const ScoredNode& state, const Class& pod);
  Score scoreOn(const ScoredNode& state, const Class& pod) const;
  static std::vector<std::size_t> cardsFor(const ScoredNode& state, const Class& pod, std::size_t first);
  static void change(ScoredNode& state, const Class& pod, const std::vector<std::size_t>& cards, int64_t sign);
  std::size_t kindOf(const TracePod& pod) const {
    return classOf_[static_cast<std::size_t>(&pod - trace_.pods.data())];
  }
  void changed(std::size_t node, const Class& pod, const std::vector<std::size_t>& cards, int64_t sign);

  const Trace& trace_;
  std::vector<std::vector<Score>> scores_;  // by class and node
};

/// Best fit: the node with the least left after placing. The sum counts CPU and cards equally, each relative to the
/// largest node, in hundredths. Of the node's cards it takes the one with the least left.
class BestFit : public Scored {
 public:
  explicit BestFit(const Trace& trace);

 private:
  double score(const ScoredNode& before, const ScoredNode& after) const override;
  double maxCpu_ = 1, maxMilli_ = 1;  // largest values of one node
};

}  // namespace egpu::bench::openb
