// One claim's total divided over several cards of a node (class parameter `split`). Internal to scheduler/.
//
// Divided is the compute (percents of a card, or whole TFLOPS), or, of a claim for memory alone, the memory; in steps
// of 1 %, 1 TFLOPS or 1 MiB (single milli-cards or bytes if the total is no multiple). Parts are whole steps, together
// exactly the total, at least one step each, on at most 16 cards. A card has *room* for so many steps as it could hold,
// whether its core or its memory ends first.
//
//   evenly  the part of every card is the same, or one step more, except of cards that have less room: those are filled
//           up. Which cards: first the least difference between the largest and the smallest part, then the fewest
//           cards, then as the card policy likes. One card that has room for everything is the most even of all.
//   fill    as few cards as possible, the one with the most room first, each filled up before the next.
//
// With explicit memory each card gets memory in proportion to its part, in whole MiB (bytes if the total is no
// multiple), together exactly the total: what is lost by rounding down goes, a MiB each, to the first cards that lost
// anything. A card must have room for its part rounded up. Without, each card gives memory in proportion to its own
// size.
//
// Example: two cards, one of them 20 % used, a claim for 120 %. Rooms 100 and 80.
//   evenly  60 and 60: the cards are now 60 % and 80 % used
//   fill    100 and 20: now 100 % and 40 %
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/scheduler/request.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

/// Whether a request's amounts are a total to be divided.
inline bool divides(const Request& request) { return request.split != Split::none && !request.wholeCards; }

/// What is divided, in steps.
class SplitTotal {
 public:
  explicit SplitTotal(const Request& request);

  int64_t steps() const { return steps_; }
  /// How many steps a card of this type with so much free has room for.
  int64_t roomOn(const CardType& type, const Amount& free) const;
  /// What a part takes of a card of this type at most, granted.
  Amount atMost(const CardType& type, int64_t part) const;
  /// What parts of these cards amount to, granted; the parts' sum is steps().
  std::vector<Amount> amounts(std::span<const CardType* const> types, std::span<const int64_t> parts) const;
  enum class Of { core, tflops, memory };
  Of of() const { return of_; }
  /// So many steps of what is divided: milli-cards, thousandths of a TFLOPS or bytes.
  int64_t inUnits(int64_t steps) const { return steps * step_; }

  static constexpr std::size_t kMostCards = 16;  ///< of one device

 private:
  int64_t coreFor(const CardType& type, int64_t part) const;

  const Request& request_;
  Of of_ = Of::core;
  int64_t step_ = 1;
  int64_t steps_ = 0;
  int64_t memory_ = 0;  ///< explicit memory beside compute, in memoryUnit_
  int64_t memoryUnit_ = 1;
};

/// A total and the cards it could be divided over.
class Division {
 public:
  /// rooms: of each card, at least 1.
  Division(Split split, int64_t total, std::vector<int64_t> rooms);

  /// How good a set is: lower is better, first unevenness, then the number of cards.
  struct Quality {
    int64_t uneven = 0;  ///< steps between the largest and the smallest part; 0 under fill
    std::size_t cards = 0;
    auto operator<=>(const Quality&) const = default;
  };

  /// Some set will do.
  bool possible() const { return best_.cards > 0; }
  Split split() const { return split_; }
  int64_t total() const { return total_; }
  int64_t room(uint32_t card) const { return rooms_[card]; }
  /// All cards, the one with the most room first; of equal ones the lower first.
  const std::vector<uint32_t>& byRoom() const { return byRoom_; }
  /// The best that any set reaches: the cards with the most room do.
  const Quality& best() const { return best_; }
  /// Of a set in the order of byRoom(); cards = 0: it will not do.
  Quality qualityOf(std::span<const uint32_t> set) const;
  /// What each card of a set in the order of byRoom() gets.
  std::vector<int64_t> parts(std::span<const uint32_t> set) const;

 private:
  Split split_;
  int64_t total_;
  std::vector<int64_t> rooms_;
  std::vector<uint32_t> byRoom_;
  Quality best_;
};

}  // namespace egpu::scheduler
