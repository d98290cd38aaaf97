// Load score of a card, 0 … 100, by which policies and presets order cards and nodes.
//
//   used      = round(m · V + (1 − m) · T)
//   available = round(m · (100 − V) + (1 − m) · (100 − T))
//
// m is the weight of memory: 0.7 by default (class parameters memoryWeight, tflopsWeight). V is the percentage of its
// memory in use, T that of its TFLOPS, which equals that of its core. Halves are rounded up, so both scores can include
// the same half. Exact: rounds only the sum. Clamped to 0 … 100 for overdrawn cards; a capacity of 0 counts as used.
//
// Example: core 1000, memory 32 GiB; used 300, 16 GiB: V 50, T 30, used 44, available 56. With m = 0.25: 35, 65.
#pragma once

#include <cstdint>

#include "controller/scheduler/request.h"

namespace egpu::scheduler {

struct LoadScore {
  int64_t used = 0;
  int64_t available = 0;
};

/// memoryWeight: m in thousandths, 0 … 1000.
inline LoadScore loadScoreOf(Amount used, Amount capacity, int64_t memoryWeight = kUsualMemoryWeight) {
  if (capacity.memory <= 0) used.memory = capacity.memory = 1;
  if (capacity.core <= 0) used.core = capacity.core = 1;
  auto scores = [&](auto wide) -> LoadScore {
    using Wide = decltype(wide);
    const Wide whole = Wide(capacity.memory) * capacity.core * 10;  // 1 % of the card, in thousandths
    const Wide load = Wide(used.memory) * capacity.core * memoryWeight +
                      Wide(used.core) * capacity.memory * (kAllWeight - memoryWeight);
    if (load <= 0) return {0, 100};
    if (load >= whole * 100) return {100, 0};
    const auto points = static_cast<int64_t>(load / whole);
    const Wide twice = (load % whole) * 2;
    return {points + (twice >= whole ? 1 : 0), 100 - points - (twice > whole ? 1 : 0)};
  };
  constexpr int64_t kMemory = int64_t{1} << 43, kCore = 1 << 10;
  const bool small = used.memory < kMemory && capacity.memory < kMemory && used.core < kCore && capacity.core < kCore;
  return small ? scores(int64_t{}) : scores(__int128{});
}

/// Load scores of a node: the means over its healthy cards, in hundredths, halves rounded up: 0 … 10,000; 0 without
/// cards. A sum would favour nodes with many cards.
///
/// Example: two cards with the scores 33 and 0: 16.5, so 1,650.
class NodeLoad {
 public:
  void add(const LoadScore& card) {
    used_ += card.used;
    available_ += card.available;
    ++cards_;
  }
  int64_t used() const { return mean(used_); }
  int64_t available() const { return mean(available_); }
  /// Converts used() or available() to a card's scale: 0 … 100.
  static int64_t inPoints(int64_t hundredths) { return (hundredths + 50) / 100; }

 private:
  int64_t mean(int64_t sum) const { return cards_ > 0 ? (sum * 200 + cards_) / (2 * cards_) : 0; }

  int64_t used_ = 0, available_ = 0, cards_ = 0;
};

}  // namespace egpu::scheduler
