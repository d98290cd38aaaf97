#include "controller/scheduler/topology/dgx.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace egpu::scheduler::topology {
namespace {

constexpr std::size_t kDgx1 = 8;
constexpr std::size_t kDgx2 = 16;

/// Returns `count` sets of `size` neighbours each.
template <std::size_t count>
constexpr std::array<Set, count> aligned(std::size_t size) {
  std::array<Set, count> sets{};
  for (std::size_t i = 0; i < count; ++i) sets[i] = firstOf(size) << (i * size);
  return sets;
}

constexpr Set pair(std::size_t a, std::size_t b) { return only(a) | only(b); }

constexpr auto kOnes8 = aligned<8>(1);
constexpr auto kOnes16 = aligned<16>(1);
constexpr auto kTwos = aligned<8>(2);
constexpr auto kFours8 = aligned<2>(4);
constexpr auto kFours16 = aligned<4>(4);
constexpr auto kEights8 = aligned<1>(8);
constexpr auto kEights16 = aligned<2>(8);
constexpr auto kSixteen = aligned<1>(16);
constexpr std::array<Set, 4> kPascalPairs{pair(0, 2), pair(1, 3), pair(4, 6), pair(5, 7)};
constexpr std::array<Set, 4> kVoltaPairs{pair(0, 3), pair(1, 2), pair(4, 7), pair(5, 6)};

constexpr std::string_view kVoltaDouble = "03 04 12 15 23 47 56 67";
constexpr std::string_view kVoltaSingle = "01 02 13 26 37 45 46 57";

int64_t pascalLinks(std::size_t a, std::size_t b) { return a / 4 == b / 4 || b == a + 4 ? 1 : 0; }

int64_t voltaLinks(std::size_t a, std::size_t b) {
  const std::array<char, 2> digits{static_cast<char>('0' + a), static_cast<char>('0' + b)};
  const std::string_view link(digits.data(), digits.size());
  if (kVoltaDouble.find(link) != std::string_view::npos) return 2;
  return kVoltaSingle.find(link) != std::string_view::npos ? 1 : 0;
}

template <class Holds>
bool everyPair(std::size_t cards, Holds holds) {
  for (std::size_t a = 0; a < cards; ++a)
    for (std::size_t b = a + 1; b < cards; ++b)
      if (!holds(a, b)) return false;
  return true;
}

}  // namespace

Machine recogniseMachine(std::span<const Site> cards) {
  if (cards.size() != kDgx1 && cards.size() != kDgx2) return Machine::other;
  auto allAre = [&](std::string_view model) {
    return std::all_of(cards.begin(), cards.end(),
                       [&](const Site& card) { return card.model.find(model) != std::string_view::npos; });
  };
  const bool pascal = allAre("P100");
  if (!pascal && !allAre("V100")) return Machine::other;
  for (std::size_t i = 0; i < cards.size(); ++i)
    if (cards[i].index != static_cast<int64_t>(i)) return Machine::other;
  if (cards.size() == kDgx2) {
    const bool switched =
        !pascal && everyPair(kDgx2, [&](std::size_t a, std::size_t b) { return switchLinks(cards[a], cards[b]) > 0; });
    return switched ? Machine::dgx2 : Machine::other;
  }
  const bool wired = everyPair(kDgx1, [&](std::size_t a, std::size_t b) {
    const int64_t links = nvlinks(cards[a], cards[b]);
    return pascal ? (links > 0) == (pascalLinks(a, b) > 0) : links == voltaLinks(a, b);
  });
  if (!wired) return Machine::other;
  return pascal ? Machine::dgx1Pascal : Machine::dgx1Volta;
}

std::span<const Set> fixedSets(Machine machine, std::size_t size) {
  switch (machine) {
    case Machine::other:
      return {};
    case Machine::dgx1Pascal:
    case Machine::dgx1Volta:
      if (size == 1) return kOnes8;
      if (size == 2) return machine == Machine::dgx1Pascal ? kPascalPairs : kVoltaPairs;
      if (size == 4) return kFours8;
      if (size == 8) return kEights8;
      return {};
    case Machine::dgx2:
      if (size == 1) return kOnes16;
      if (size == 2) return kTwos;
      if (size == 4) return kFours16;
      if (size == 8) return kEights16;
      if (size == 16) return kSixteen;
      return {};
  }
  return {};
}

Set firstFixedSet(Machine machine, const CardSetRequest& wish) {
  const Set available = wish.available & ~wish.avoided;
  for (const Set set : fixedSets(machine, wish.size))
    if ((set & ~available) == 0 && (wish.required & ~set) == 0) return set;
  return 0;
}

}  // namespace egpu::scheduler::topology
