#include "controller/scheduler/fragmentation/card_worth.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace egpu::scheduler::fragmentation {
namespace {

constexpr int kMaxIterations = 100;
constexpr double kEpsilon = 1e-9;
constexpr std::size_t kWhole = 1000;

using Vector = std::vector<double>;

/// The maximum yield of each rest at given prices, and the size added last for it (−1: none). Counts in the largest
/// unit of which all sizes and the whole card are multiples.
class Knapsack {
 public:
  explicit Knapsack(const std::vector<ShareDemand>& sizes) {
    auto unit = static_cast<int64_t>(kWhole);
    for (const ShareDemand& each : sizes) unit = std::gcd(unit, each.size);
    unit_ = static_cast<std::size_t>(unit);
    for (const ShareDemand& each : sizes) sizes_.push_back(static_cast<std::size_t>(each.size) / unit_);
    value_.resize(kWhole / unit_ + 1);
    pick_.resize(value_.size());
  }

  void fill(const Vector& prices) {
    value_[0] = 0;
    pick_[0] = -1;
    for (std::size_t rest = 1; rest < value_.size(); ++rest) {
      double max = value_[rest - 1];
      int32_t pick = -1;
      for (std::size_t i = 0; i < sizes_.size(); ++i) {
        if (sizes_[i] > rest || value_[rest - sizes_[i]] + prices[i] <= max + kEpsilon) continue;
        max = value_[rest - sizes_[i]] + prices[i];
        pick = static_cast<int32_t>(i);
      }
      value_[rest] = max;
      pick_[rest] = pick;
    }
  }

  double valueOf(std::size_t milli) const { return value_[milli / unit_]; }

  /// Returns how often each size occurs in the best way to cut a whole card.
  Vector pattern() const {
    Vector times(sizes_.size(), 0);
    for (std::size_t rest = value_.size() - 1; rest > 0;) {
      if (pick_[rest] < 0) {
        --rest;
        continue;
      }
      const auto i = static_cast<std::size_t>(pick_[rest]);
      times[i] += 1;
      rest -= sizes_[i];
    }
    return times;
  }

 private:
  std::size_t unit_ = 1;  // milli-cards
  std::vector<std::size_t> sizes_;
  Vector value_;
  std::vector<int32_t> pick_;
};

/// The simplex method over ways to cut a card, with one column per size in the basis. Stores the inverse of the basis.
class Cutting {
 public:
  explicit Cutting(const std::vector<ShareDemand>& sizes) : n_(sizes.size()) {
    inverse_.assign(n_ * n_, 0);
    cards_.resize(n_);
    prices_.resize(n_);
    for (std::size_t i = 0; i < n_; ++i) {  // initially, each size is cut from separate cards
      const int64_t copies = static_cast<int64_t>(kWhole) / sizes[i].size;
      const auto times = static_cast<double>(copies);
      inverse_[i * n_ + i] = 1 / times;
      cards_[i] = sizes[i].weight / times;
      prices_[i] = 1 / times;
    }
  }

  /// Leaves the worth of rests at the final prices in the knapsack.
  void run(Knapsack& knapsack) {
    knapsack.fill(prices_);
    for (int i = 0; i < kMaxIterations && knapsack.valueOf(kWhole) > 1 + kEpsilon * 100; ++i) {
      if (!enter(knapsack.pattern())) return;
      knapsack.fill(prices_);
    }
  }

 private:
  bool enter(const Vector& pattern) {
    Vector change(n_, 0);
    for (std::size_t row = 0; row < n_; ++row)
      for (std::size_t i = 0; i < n_; ++i) change[row] += inverse_[row * n_ + i] * pattern[i];
    std::size_t leaves = n_;
    double least = 0;
    for (std::size_t row = 0; row < n_; ++row) {
      if (change[row] <= kEpsilon) continue;
      const double ratio = cards_[row] / change[row];
      if (leaves == n_ || ratio < least) least = ratio, leaves = row;
    }
    if (leaves == n_) return false;
    const double pivot = change[leaves];
    for (std::size_t i = 0; i < n_; ++i) inverse_[leaves * n_ + i] /= pivot;
    cards_[leaves] = least;
    for (std::size_t row = 0; row < n_; ++row) {
      if (row == leaves) continue;
      for (std::size_t i = 0; i < n_; ++i) inverse_[row * n_ + i] -= change[row] * inverse_[leaves * n_ + i];
      cards_[row] = std::max(0.0, cards_[row] - change[row] * least);
    }
    // Every card costs 1, so the duals are the column sums of the inverse.
    for (std::size_t i = 0; i < n_; ++i) {
      prices_[i] = 0;
      for (std::size_t row = 0; row < n_; ++row) prices_[i] += inverse_[row * n_ + i];
      prices_[i] = std::max(0.0, prices_[i]);
    }
    return true;
  }

  std::size_t n_;
  Vector inverse_;  // inverse of the basis, by rows
  Vector cards_;    // number of cards cut in each way of the basis
  Vector prices_;
};

}  // namespace

CardWorth worthOfRests(const std::vector<ShareDemand>& demand) {
  CardWorth worth{};
  worth[kWhole] = 1000;
  if (demand.empty()) return worth;
  Knapsack best(demand);
  Cutting(demand).run(best);
  const double max = std::max(1.0, best.valueOf(kWhole));  // above 1 only if the iterations ended early
  for (std::size_t rest = 0; rest < kWhole; ++rest)
    worth[rest] = static_cast<int32_t>(std::lround(best.valueOf(rest) / max * 1000));
  return worth;
}

}  // namespace egpu::scheduler::fragmentation
