// Scores the connection between each two cards of a node.
//
// score(a, b) = the best PCIe path + 100 per NVLink, direct or through an NVSwitch:
//
//   system (across CPUs) 10 · cpu (same CPU) 20 · hostbridge 30 · multiple (several switches) 40 · single (one switch)
//   50 · board (same board) 60 · nvlink 100 × links · nvswitch 100 × active links to the switches
//
// A link counts as the smaller number that its two ends report: a link of which one end is down or does not report it
// carries nothing. If not both ends report a PCIe path, the NUMA nodes decide: same 20, different 10, unknown 0. Other
// link types count 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "api/v1alpha/types.h"

namespace egpu::scheduler::topology {

/// The attributes of a card that are used here. Refers to the card and is valid as long as it.
struct Site {
  std::string_view uuid, model;
  int64_t index = 0;
  const v1alpha::CardTopology* topology = nullptr;
  static Site of(const v1alpha::Card& card) { return {card.uuid, card.model, card.index, &card.topology}; }
};

class PairScores {
 public:
  PairScores() = default;
  /// All scores are 0.
  explicit PairScores(std::size_t cards) : cards_(cards), scores_(cards * cards) {}

  std::size_t cards() const { return cards_; }
  int32_t at(std::size_t a, std::size_t b) const { return scores_[a * cards_ + b]; }
  void set(std::size_t a, std::size_t b, int32_t score) { scores_[a * cards_ + b] = scores_[b * cards_ + a] = score; }
  /// True if all pairs have equal scores: then no set is better than another of its size.
  bool flat() const;
  auto operator<=>(const PairScores&) const = default;

 private:
  std::size_t cards_ = 0;
  std::vector<int32_t> scores_;  // cards_ × cards_, symmetric, 0 on the diagonal
};

/// Scores the cards of one node, numbered by position. Links to other cards are ignored.
PairScores pairScores(std::span<const Site> cards);

/// Number of direct NVLinks between two cards that both report.
int64_t nvlinks(const Site& a, const Site& b);
/// Number of links through NVSwitches that both cards report.
int64_t switchLinks(const Site& a, const Site& b);

}  // namespace egpu::scheduler::topology
