// How well each two cards of a node are connected, as one number per pair.
//
// score(a, b) = the best PCIe path + 100 per NVLink, whether direct or through an NVSwitch:
//
//   system (across CPUs) 10 · cpu (same CPU) 20 · hostbridge 30 · multiple (several switches) 40 · single (one switch)
//   50 · board (same board) 60 · nvlink 100 × links · nvswitch 100 × active links to the switches
//
// A link counts as far as both its ends report it, the smaller number of the two: an end that is down or silent carries
// nothing. Without a PCIe path on both sides the NUMA nodes tell: same 20, different 10, unknown 0. What else a card
// says of a peer counts 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "api/v1alpha/types.h"

namespace egpu::scheduler::topology {

/// What of a card matters here. Refers to the card: valid while that is.
struct Site {
  std::string_view uuid, model;
  int64_t index = 0;
  const v1alpha::CardTopology* topology = nullptr;
  static Site of(const v1alpha::Card& card) { return {card.uuid, card.model, card.index, &card.topology}; }
};

class PairScores {
 public:
  PairScores() = default;
  /// All pairs 0.
  explicit PairScores(std::size_t cards) : cards_(cards), scores_(cards * cards) {}

  std::size_t cards() const { return cards_; }
  int32_t at(std::size_t a, std::size_t b) const { return scores_[a * cards_ + b]; }
  void set(std::size_t a, std::size_t b, int32_t score) { scores_[a * cards_ + b] = scores_[b * cards_ + a] = score; }
  /// Every pair is as good as every other: no set is better than another of its size.
  bool flat() const;
  auto operator<=>(const PairScores&) const = default;

 private:
  std::size_t cards_ = 0;
  std::vector<int32_t> scores_;  // cards_ × cards_, symmetric, 0 on the diagonal
};

/// Of cards of one node, numbered as they come. Links to cards that are not among them are ignored.
PairScores pairScores(std::span<const Site> cards);

/// Direct NVLinks between two cards as both report them.
int64_t nvlinks(const Site& a, const Site& b);
/// Links through NVSwitches likewise.
int64_t switchLinks(const Site& a, const Site& b);

}  // namespace egpu::scheduler::topology
