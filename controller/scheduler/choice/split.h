// Division of a claim's total over several cards of a node (class parameter `split`). Internal to scheduler/.
//
// Compute is divided (percents of a card, or whole TFLOPS) or, for a claim with memory only, the memory. Steps are 1 %,
// 1 TFLOPS or 1 MiB (single milli-cards, thousandths of a TFLOPS or bytes if the total is no multiple). Parts are whole
// steps, at least one step each, exact in sum, on at most 16 cards. The capacity of a card is the number of steps that
// it can hold, limited by its core or its memory.
//
//   evenly  all parts are equal or differ by one step, except that cards with less capacity are filled up. Choice of
//           the cards: first the least difference between the largest and the smallest part, then the fewest cards,
//           then by the card policy. A single card that can hold everything is the most even.
//   fill    as few cards as possible: the card with the most capacity first, each filled up before the next.
//
// With explicit memory each card gets memory in proportion to its part, in whole MiB (bytes if the total is no
// multiple), exact in sum: the remainder of rounding down goes to the first cards that lost any, one MiB each. A card
// needs capacity for its part rounded up. Without explicit memory, each card gives memory in proportion to its own
// size.
//
// Example: two cards, one of them 20 % used, a claim for 120 %. Capacities 100 and 80.
//   evenly  60 and 60: the cards are now 60 % and 80 % used
//   fill    100 and 20: now 100 % and 40 %
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/scheduler/request.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

/// True if a request's amounts are a total to be divided.
inline bool divides(const Request& request) { return request.split != Split::none && !request.wholeCards; }

/// A total to be divided, in steps.
class SplitTotal {
 public:
  explicit SplitTotal(const Request& request);

  int64_t steps() const { return steps_; }
  /// Returns the capacity in steps of a card of this type with these free amounts.
  int64_t capacityOn(const CardType& type, const Amount& free) const;
  /// Returns the maximum amount granted for a part on a card of this type.
  Amount maxAmount(const CardType& type, int64_t part) const;
  /// Returns the granted amounts of the parts on these cards; the parts' sum is steps().
  std::vector<Amount> amounts(std::span<const CardType* const> types, std::span<const int64_t> parts) const;
  enum class Unit { core, tflops, memory };
  Unit unit() const { return unit_; }  ///< what is divided
  /// Converts steps to milli-cards, thousandths of a TFLOPS or bytes.
  int64_t inUnits(int64_t steps) const { return steps * step_; }

  static constexpr std::size_t kMaxCards = 16;  ///< maximum number per device

 private:
  int64_t coreFor(const CardType& type, int64_t part) const;

  const Request& request_;
  Unit unit_ = Unit::core;
  int64_t step_ = 1;
  int64_t steps_ = 0;
  int64_t memory_ = 0;  ///< explicit memory in addition to compute, in memoryUnit_
  int64_t memoryUnit_ = 1;
};

/// A total and the cards over which it could be divided.
class Division {
 public:
  /// capacities: of each card, at least 1.
  Division(Split split, int64_t total, std::vector<int64_t> capacities);

  /// Quality of a set: lower is better, first by unevenness, then by number of cards.
  struct Quality {
    int64_t uneven = 0;  ///< steps between the largest and the smallest part; 0 under fill
    std::size_t cards = 0;
    auto operator<=>(const Quality&) const = default;
  };

  /// True if some set can hold the total.
  bool possible() const { return best_.cards > 0; }
  Split split() const { return split_; }
  int64_t total() const { return total_; }
  int64_t capacity(uint32_t card) const { return capacities_[card]; }
  /// All cards by capacity, the largest first; ties: the lower position.
  const std::vector<uint32_t>& byCapacity() const { return byCapacity_; }
  /// Best quality of any set; the cards with the most capacity reach it.
  const Quality& best() const { return best_; }
  /// Quality of a set in the order of byCapacity(); cards = 0: it cannot hold the total.
  Quality qualityOf(std::span<const uint32_t> set) const;
  /// Parts of the cards of a set in the order of byCapacity().
  std::vector<int64_t> parts(std::span<const uint32_t> set) const;

 private:
  Split split_;
  int64_t total_;
  std::vector<int64_t> capacities_;
  std::vector<uint32_t> byCapacity_;
  Quality best_;
};

}  // namespace egpu::scheduler
