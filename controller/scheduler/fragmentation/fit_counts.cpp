#include "controller/scheduler/fragmentation/fit_counts.h"

#include <algorithm>
#include <array>

#include "controller/scheduler/fragmentation/wide.h"

namespace egpu::scheduler::fragmentation {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kMost = 4'000'000;  // milli-CPU or MiB: with a half added still exact in a float
constexpr std::size_t kMostRows = 1 << 14;
constexpr float kPlenty = 1e6F;

float counted(int64_t n) { return static_cast<float>(std::clamp<int64_t>(n, -1, kMost)); }

uint32_t hashOf(const CardState& card) {
  uint64_t hash = static_cast<uint64_t>(card.free.core) << 33 ^ static_cast<uint64_t>(card.free.memory) ^
                  uint64_t { card.type } << 1 ^ (card.empty ? 1 : 0);
  hash *= 0x9e3779b97f4a7c15u;
  return static_cast<uint32_t>(hash >> 32);
}

EGPU_WIDE void addRow(const uint16_t* row, std::size_t size, uint16_t* sum) {
  for (std::size_t i = 0; i < size; ++i) sum[i] = static_cast<uint16_t>(sum[i] + row[i]);
}

EGPU_WIDE void takeRow(const uint16_t* row, std::size_t size, uint16_t* sum) {
  for (std::size_t i = 0; i < size; ++i) sum[i] = static_cast<uint16_t>(sum[i] - row[i]);
}

}  // namespace

FitCounts::FitCounts(std::vector<DemandShape> shapes)
    : shapes_(std::move(shapes)), padded_((shapes_.size() + kLanes - 1) / kLanes * kLanes) {
  for (auto* numbers : {&perCopy_, &perCpu_, &perMemory_, &cpuFree_, &memoryFree_}) numbers->assign(padded_, 0);
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    const DemandShape& shape = shapes_[i];
    perCopy_[i] = 1 / static_cast<float>(shape.cards);
    const int64_t memory = (shape.ofNode.memory + kMiB - 1) / kMiB;
    if (shape.ofNode.cpuMilli > 0) {
      perCpu_[i] = 1 / counted(shape.ofNode.cpuMilli);
    } else {
      cpuFree_[i] = kPlenty;
    }
    if (memory > 0) {
      perMemory_[i] = 1 / counted(memory);
    } else {
      memoryFree_[i] = kPlenty;
    }
  }
}

void FitCounts::fill(const CardState& card, uint16_t* parts) const {
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    const DemandShape& shape = shapes_[i];
    parts[i] = 0;
    if (card.type >= shape.on.size() || !shape.on[card.type].possible) continue;
    if (shape.wholeCards) {
      parts[i] = card.empty ? 1 : 0;
      continue;
    }
    const Amount& charged = shape.on[card.type].charged;
    int64_t room = 1000;
    if (charged.core > 0) room = std::min(room, std::max<int64_t>(0, card.free.core) / charged.core);
    if (charged.memory > 0) room = std::min(room, std::max<int64_t>(0, card.free.memory) / charged.memory);
    // Each card of a copy is another card.
    parts[i] = static_cast<uint16_t>(shape.cards > 1 ? std::min<int64_t>(room, 1) : room);
  }
}

void FitCounts::makeRoom(std::size_t rows) {
  if (cards_.size() + rows <= kMostRows) return;
  known_ = {};
  cards_.clear();
  rows_.clear();
}

std::size_t FitCounts::rowOf(const CardState& card) {
  const uint32_t hash = hashOf(card);
  uint32_t row = known_.find(hash, [&](uint32_t each) { return cards_[each] == card; });
  if (row == kNone) {
    row = static_cast<uint32_t>(cards_.size());
    known_.insert(hash, row);
    cards_.push_back(card);
    rows_.resize(rows_.size() + padded_, 0);
    fill(card, rows_.data() + row * padded_);
  }
  return row * padded_;
}

void FitCounts::add(const CardState& card, Parts& sum) {
  makeRoom(1);
  const std::size_t at = rowOf(card);
  addRow(rows_.data() + at, padded_, sum.data());
}

void FitCounts::take(const CardState& card, Parts& sum) {
  makeRoom(1);
  const std::size_t at = rowOf(card);
  takeRow(rows_.data() + at, padded_, sum.data());
}

void FitCounts::partsOn(const NodeState& node, Parts& sum) {
  sum.assign(padded_, 0);
  makeRoom(node.cards.size());
  const CardState* last = nullptr;
  std::size_t at = 0;
  for (const CardState& card : node.cards) {
    if (last == nullptr || card != *last) at = rowOf(card);  // neighbours are often alike
    last = &card;
    addRow(rows_.data() + at, padded_, sum.data());
  }
}

// The half keeps ⌊free ÷ amount⌋ exact when it is worked out as free times a rounded reciprocal.
FitCounts::Left::Left(const NodeAmount& free)
    : cpu(counted(free.cpuMilli) + 0.5F), memory(counted(free.memory / kMiB) + 0.5F) {}

[[gnu::always_inline]] inline float FitCounts::copiesOf(std::size_t shape, const Left& left, uint16_t parts) const {
  const float byCards = (static_cast<float>(parts) + 0.5F) * perCopy_[shape];
  const float byCpu = left.cpu * perCpu_[shape] + cpuFree_[shape];
  const float byMemory = left.memory * perMemory_[shape] + memoryFree_[shape];
  return static_cast<float>(static_cast<int32_t>(std::min(byCards, std::min(byCpu, byMemory))));
}

EGPU_WIDE void FitCounts::addCopies(const NodeAmount& free, const Parts& parts, double nodes,
                                    std::span<double> sum) const {
  const Left left(free);
  const uint16_t* const each = parts.data();
  double* const to = sum.data();
  for (std::size_t i = 0; i < padded_; ++i) to[i] += nodes * static_cast<double>(copiesOf(i, left, each[i]));
}

template <class PartsOf>
[[gnu::always_inline]] inline float FitCounts::worthOf(const NodeAmount& free, PartsOf partsOf,
                                                       std::span<const float> perCopy) const {
  const Left left(free);
  std::array<float, kLanes> sums{};  // several sums side by side: no one waits for the other
  for (std::size_t i = 0; i < padded_; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      sums[lane] += copiesOf(i + lane, left, partsOf(i + lane)) * perCopy[i + lane];
  float worth = 0;
  for (const float sum : sums) worth += sum;
  return worth;
}

EGPU_WIDE float FitCounts::worth(const NodeAmount& free, const Parts& parts, std::span<const float> perCopy) const {
  const uint16_t* const each = parts.data();
  return worthOf(
      free, [=](std::size_t i) { return each[i]; }, perCopy);
}

float FitCounts::worthWith(const NodeAmount& free, const Parts& parts, const CardState& was, const CardState& becomes,
                           std::span<const float> perCopy) {
  makeRoom(2);
  const std::size_t wasAt = rowOf(was), becomesAt = rowOf(becomes);
  return worthOfChange(free, parts.data(), rows_.data() + wasAt, rows_.data() + becomesAt, perCopy);
}

EGPU_WIDE float FitCounts::worthOfChange(const NodeAmount& free, const uint16_t* parts, const uint16_t* less,
                                         const uint16_t* more, std::span<const float> perCopy) const {
  return worthOf(
      free, [=](std::size_t i) { return static_cast<uint16_t>(parts[i] - less[i] + more[i]); }, perCopy);
}

}  // namespace egpu::scheduler::fragmentation
