#include "controller/scheduler/choice/split.h"

#include <algorithm>
#include <numeric>

#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/parameters.h"

namespace egpu::scheduler {
namespace {

constexpr int64_t kMilli = 1000;  // thousandths of a TFLOPS in one TFLOPS

/// Returns the coarser step if it divides the amount, otherwise 1.
int64_t stepOf(int64_t amount, int64_t coarse) { return amount % coarse == 0 ? coarse : 1; }

int64_t scaled(int64_t value, int64_t times, int64_t by) {
  return static_cast<int64_t>(static_cast<__int128>(value) * times / by);
}
int64_t scaledUp(int64_t value, int64_t times, int64_t by) {
  return static_cast<int64_t>((static_cast<__int128>(value) * times + by - 1) / by);
}

}  // namespace

SplitTotal::SplitTotal(const Request& request) : request_(request) {
  const Amount& whole = request.perCard;
  if (request.milliTflopsPerCard > 0) {
    unit_ = Unit::tflops;
    step_ = stepOf(request.milliTflopsPerCard, kMilli);
    steps_ = request.milliTflopsPerCard / step_;
  } else if (whole.core > 0) {
    step_ = stepOf(whole.core, kMilliPerPercent);
    steps_ = whole.core / step_;
  } else {
    unit_ = Unit::memory;
    step_ = stepOf(whole.memory, kMiB);
    steps_ = whole.memory / step_;
  }
  if (unit_ != Unit::memory && !request.memoryFromCore) {
    memoryUnit_ = stepOf(whole.memory, kMiB);
    memory_ = whole.memory / memoryUnit_;
  }
}

int64_t SplitTotal::coreFor(const CardType& type, int64_t part) const {
  if (unit_ == Unit::memory) return 0;
  return unit_ == Unit::core ? part * step_ : scaledUp(part * step_, type.core, type.milliTflops);
}

int64_t SplitTotal::capacityOn(const CardType& type, const Amount& free) const {
  if (steps_ <= 0 || (unit_ == Unit::tflops && (type.milliTflops <= 0 || type.core <= 0))) return 0;
  // An overdrawn card has no capacity, even if the request does not need the overdrawn resource.
  if (free.core < 0 || free.memory < 0) return 0;
  const int64_t core = std::min(type.core, grantableFrom(free.core, request_.coreOvercommit));
  const int64_t memory = std::min(type.memory, grantableFrom(free.memory, request_.memoryOvercommit));
  if (unit_ == Unit::memory) return memory / step_;
  int64_t capacity = unit_ == Unit::core ? core / step_ : scaled(core, type.milliTflops, type.core) / step_;
  if (!request_.memoryFromCore) {
    if (memory_ > 0) capacity = std::min(capacity, scaled(memory / memoryUnit_, steps_, memory_));
    return capacity;
  }
  // Memory in proportion grows with the part: find the largest part that fits.
  auto fits = [&](int64_t part) { return memoryInProportion(coreFor(type, part), type) <= memory; };
  if (fits(capacity)) return capacity;
  int64_t good = 0;
  for (int64_t bad = capacity; bad - good > 1;) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

Amount SplitTotal::maxAmount(const CardType& type, int64_t part) const {
  if (unit_ == Unit::memory) return {0, part * step_};
  const int64_t core = coreFor(type, part);
  if (request_.memoryFromCore) return {core, memoryInProportion(core, type)};
  return {core, steps_ > 0 ? scaledUp(memory_, part, steps_) * memoryUnit_ : 0};
}

std::vector<Amount> SplitTotal::amounts(std::span<const CardType* const> types, std::span<const int64_t> parts) const {
  std::vector<Amount> amounts;
  int64_t given = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Amount amount{coreFor(*types[i], parts[i]), 0};
    if (unit_ == Unit::memory) {
      amount.memory = parts[i] * step_;
    } else if (request_.memoryFromCore) {
      amount.memory = memoryInProportion(amount.core, *types[i]);
    } else {
      amount.memory = scaled(memory_, parts[i], steps_);
      given += amount.memory;
    }
    amounts.push_back(amount);
  }
  if (unit_ == Unit::memory || request_.memoryFromCore) return amounts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (given < memory_ && static_cast<__int128>(memory_) * parts[i] % steps_ != 0) {
      ++amounts[i].memory;
      ++given;
    }
    amounts[i].memory *= memoryUnit_;
  }
  return amounts;
}

Division::Division(Split split, int64_t total, std::vector<int64_t> capacities)
    : split_(split), total_(total), capacities_(std::move(capacities)), byCapacity_(capacities_.size()) {
  std::iota(byCapacity_.begin(), byCapacity_.end(), 0u);
  std::stable_sort(byCapacity_.begin(), byCapacity_.end(),
                   [this](uint32_t a, uint32_t b) { return capacities_[a] > capacities_[b]; });
  const std::size_t max = std::min(byCapacity_.size(), SplitTotal::kMaxCards);
  for (std::size_t n = 1; n <= max; ++n) {
    const Quality quality = qualityOf({byCapacity_.data(), n});
    if (quality.cards == 0) continue;
    if (best_.cards == 0 || quality < best_) best_ = quality;
    if (split_ == Split::fill || best_.uneven == 0) break;
  }
}

Division::Quality Division::qualityOf(std::span<const uint32_t> set) const {
  const int64_t cards = static_cast<int64_t>(set.size());
  if (cards == 0 || cards > total_) return {};
  int64_t sum = 0;
  for (const uint32_t card : set) sum += std::min(capacities_[card], total_);
  if (sum < total_) return {};
  if (split_ == Split::fill) return {0, set.size()};
  int64_t rest = total_, sharing = cards;
  // From the smallest capacity up: cards that cannot hold an equal part are filled.
  while (capacities_[set[static_cast<std::size_t>(sharing - 1)]] * sharing < rest) {
    rest -= capacities_[set[static_cast<std::size_t>(sharing - 1)]];
    --sharing;
  }
  const int64_t largest = (rest + sharing - 1) / sharing;
  const int64_t smallest = sharing < cards ? capacities_[set.back()] : rest / sharing;
  return {largest - smallest, set.size()};
}

std::vector<int64_t> Division::parts(std::span<const uint32_t> set) const {
  std::vector<int64_t> parts(set.size());
  int64_t rest = total_;
  if (split_ == Split::fill) {
    for (std::size_t i = 0; i < set.size(); ++i) {
      const int64_t toCome = static_cast<int64_t>(set.size() - i) - 1;  // each later card gets at least one step
      parts[i] = std::min(capacities_[set[i]], rest - toCome);
      rest -= parts[i];
    }
    return parts;
  }
  std::size_t sharing = set.size();
  while (capacities_[set[sharing - 1]] * static_cast<int64_t>(sharing) < rest) {
    --sharing;
    parts[sharing] = capacities_[set[sharing]];
    rest -= parts[sharing];
  }
  const int64_t n = static_cast<int64_t>(sharing);
  for (std::size_t i = 0; i < sharing; ++i) parts[i] = rest / n + (static_cast<int64_t>(i) < rest % n ? 1 : 0);
  return parts;
}

}  // namespace egpu::scheduler
