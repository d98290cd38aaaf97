// Choice of slots for MIG instances: all placed states of an A100 against a search that lists placements one by one,
// and the number of rejected instances against first fit.
#include "controller/scheduler/mig/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/scheduler/mig/instances.h"

namespace egpu::scheduler::mig::testing {
namespace {

/// An instance on a card: position of its profile in the table, and first slot.
using Instance = std::pair<std::size_t, unsigned>;
using State = std::set<Instance>;

Slots slotsOf(const Profiles& table, const State& state) {
  Slots used;
  for (const auto& [profile, start] : state) used = used.with(table[profile].slotsFrom(start));
  return used;
}

/// All sets of instances that fit on a card together, found by adding one instance after the other.
std::set<State> allStates(const Profiles& table) {
  std::set<State> seen;
  std::vector<State> open{{}};
  while (!open.empty()) {
    const State state = open.back();
    open.pop_back();
    if (!seen.insert(state).second) continue;
    for (std::size_t profile = 0; profile < table.size(); ++profile)
      for (unsigned start = 0; start < Slots::kMemory; ++start)
        if (table[profile].fitsAt(start, slotsOf(table, state))) {
          State next = state;
          next.emplace(profile, start);
          open.push_back(std::move(next));
        }
  }
  return seen;
}

/// Placements that are possible beside the state, slot by slot instead of by masks.
std::set<Instance> possibleBeside(const Profiles& table, const State& state) {
  std::array<bool, Slots::kMemory> used{};
  for (const auto& [profile, start] : state)
    for (unsigned slot = start; slot < start + static_cast<unsigned>(table[profile].size); ++slot) used[slot] = true;
  std::set<Instance> possible;
  for (std::size_t profile = 0; profile < table.size(); ++profile)
    for (unsigned start = 0; start < Slots::kMemory; ++start) {
      if (!table[profile].starts.has(start)) continue;
      const auto first = used.begin() + start;
      if (std::none_of(first, first + table[profile].size, [](bool taken) { return taken; }))
        possible.emplace(profile, start);
    }
  return possible;
}

TEST(MigPlacement, EveryPlacedStateOfAnA100_LeastLossAsByBruteForce) {
  const Profiles table = a100();
  const auto states = allStates(table);
  EXPECT_EQ(states.size(), 723u);
  for (const State& state : states) {
    const auto before = possibleBeside(table, state);
    for (std::size_t profile = 0; profile < table.size(); ++profile) {
      std::optional<std::pair<int64_t, unsigned>> best;  // loss, start
      for (const auto& [which, start] : before) {
        if (which != profile) continue;
        State next = state;
        next.emplace(profile, start);
        const auto after = possibleBeside(table, next);
        int64_t loss = 0;
        for (const Instance& each : before)
          if (!after.contains(each)) loss += table[each.first].size;
        const std::pair<int64_t, unsigned> found{loss, start};
        if (!best || found < *best) best = found;
      }
      const Slots used = slotsOf(table, state);
      const auto chosen = chooseSlots(table, table[profile], 1, used);
      ASSERT_EQ(chosen.has_value(), best.has_value());
      EXPECT_EQ(canPlace(table[profile], 1, used), best.has_value());
      if (!best) continue;
      EXPECT_EQ(placementLoss(table, used, *chosen), best->first);
      EXPECT_EQ(startsOf(table[profile], *chosen), std::vector<unsigned>{best->second});
      EXPECT_FALSE(chosen->overlaps(used));
    }
  }
}

std::optional<Slots> firstFit(const MigProfile& profile, Slots used) {
  for (unsigned start = 0; start < Slots::kMemory; ++start)
    if (profile.fitsAt(start, used)) return profile.slotsFrom(start);
  return std::nullopt;
}

/// Offers instances of random profiles and lifetimes to one card; returns the number that it rejects.
int rejections(const Profiles& table, unsigned seed, bool byLoss) {
  struct Running {
    int until = 0;
    Slots slots;
  };
  std::mt19937 random(seed);
  std::vector<Running> running;
  int rejected = 0;
  for (int now = 0; now < 20'000; ++now) {
    std::erase_if(running, [now](const Running& each) { return each.until <= now; });
    const MigProfile& profile = table[random() % table.size()];
    const int until = now + 1 + static_cast<int>(random() % 8);
    Slots used;
    for (const Running& each : running) used = used.with(each.slots);
    const auto slots = byLoss ? chooseSlots(table, profile, 1, used) : firstFit(profile, used);
    if (slots)
      running.push_back({until, *slots});
    else
      ++rejected;
  }
  return rejected;
}

TEST(MigPlacement, RandomArrivals_FewerRejectionsThanFirstFit) {
  Profiles table = a100();
  table.pop_back();  // without 7g, for which every choice of slots is the same
  for (const unsigned seed : {1u, 2u, 3u}) {
    const int byLoss = rejections(table, seed, true), inOrder = rejections(table, seed, false);
    std::cout << "rejected: " << byLoss << " by loss, " << inOrder << " by first fit\n";
    EXPECT_LT(byLoss, inOrder);
  }
}

TEST(MigPlacement, FirstSmallInstance_LeavesTheHalfOf4g) {
  const Profiles table = a100();
  const auto small = chooseSlots(table, *findProfile(table, "1g.5gb"), 1, {});
  ASSERT_TRUE(small);
  EXPECT_EQ(small->bits, 1u << 6);
  const auto half = chooseSlots(table, *findProfile(table, "4g.20gb"), 1, *small);
  ASSERT_TRUE(half);
  EXPECT_EQ(half->bits, 0xfu);
}

TEST(MigPlacement, NoFreePlacement_None) {
  const Profiles table = a100();
  EXPECT_FALSE(chooseSlots(table, *findProfile(table, "7g.40gb"), 1, {1}));
  // Two slots are free, but no 2g instance can start at 1 or 6.
  EXPECT_FALSE(chooseSlots(table, *findProfile(table, "2g.10gb"), 1, {static_cast<uint16_t>(0xff & ~0x42u)}));
}

TEST(MigPlacement, SeveralInstances_EachHasItsPlace) {
  const Profiles table = a100();
  for (const MigProfile& profile : table)
    for (int64_t n = 1; n <= 8; ++n) {
      const auto chosen = chooseSlots(table, profile, n, {});
      EXPECT_EQ(chosen.has_value(), canPlace(profile, n, {})) << profile.name << " x " << n;
      if (chosen) {
        EXPECT_EQ(startsOf(profile, *chosen).size(), static_cast<std::size_t>(n)) << profile.name;
      }
    }
  EXPECT_TRUE(canPlace(table[0], 7, {}));
  EXPECT_FALSE(canPlace(table[0], 8, {}));
}

TEST(MigPlacement, MediaEngines_OneInstance) {
  MigProfile media = a100()[0];
  media.name = "1g.5gb+me";
  media.media = true;
  Profiles table = a100();
  table.push_back(media);
  EXPECT_EQ(findProfile(table, "1g.5gb.me"), &table.back());
  const auto first = chooseSlots(table, media, 1, {});
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->has(Slots::kMedia));
  EXPECT_FALSE(canPlace(media, 1, *first));
  EXPECT_TRUE(canPlace(table[0], 6, *first));
}

TEST(MigPlacement, OverlappingPlacementsOfOneProfile_AllThatFit) {
  MigProfile odd = a100()[1];
  odd.starts = {0b1111111};  // two slots, at any start
  EXPECT_TRUE(chooseSlots({odd}, odd, 4, {}));
}

}  // namespace
}  // namespace egpu::scheduler::mig::testing
