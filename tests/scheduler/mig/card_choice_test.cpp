// Choice among several cards for MIG instances: the least loss of placements, the card policy among equal ones, and the
// number of rejected instances against other choices.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "controller/scheduler/decide.h"
#include "controller/scheduler/mig/placement.h"
#include "controller/scheduler/state/fill.h"
#include "tests/scheduler/mig/instances.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

using v1alpha::MigProfile;
using v1alpha::Slots;

/// Amount of one instance on a card of 1000 milli-cards.
Amount amountOf(const MigProfile& profile) { return {1000 * profile.compute / 7, profile.memory, {}}; }

std::string cardName(std::size_t number) { return (number < 10 ? "card-0" : "card-") + std::to_string(number); }

/// One node with empty A100s of 40 GB in MIG mode.
Cluster nodeWith(std::size_t cards, const mig::Profiles& profiles) {
  Cluster cluster;
  cluster.upsertNode({"n1"});
  for (std::size_t i = 0; i < cards; ++i) {
    auto info = makeCard(cardName(i), "n1", static_cast<int64_t>(i), 40 * kGi, "A100");
    info.card.mig = profiles;
    cluster.upsertCard(info);
  }
  return cluster;
}

Request migRequest(const std::string& profile, int64_t n = 1, const std::string& policy = "binpack") {
  Request request;
  request.mig = {profile, n};
  request.isolation = "mig";
  request.cardPolicy = policy;
  return request;
}

/// Puts an instance on a card, whatever the scheduler would choose.
void put(Cluster& cluster, std::size_t card, const std::string& profile, unsigned start) {
  const mig::Profiles table = mig::testing::a100();
  const MigProfile& of = *mig::findProfile(table, profile);
  Amount amount = amountOf(of);
  amount.slots = of.slotsFrom(start);
  ASSERT_TRUE(
      cluster.take(cardName(card), cardName(card) + "/" + profile + "@" + std::to_string(start), amount, {}, "mig"));
}

std::string cardOf(const Decision& decision) { return decision.fits ? decision.placements.front().card : "none"; }

TEST(MigCardChoice, LeastLoss_BeforeTheFullestCard) {
  Cluster cluster = nodeWith(3, mig::testing::a100());
  put(cluster, 0, "4g.20gb", 0);  // an instance at slot 6 loses 3g at 4, and more
  put(cluster, 1, "1g.5gb", 6);   // 3g at 4 is lost already
  const Decision decision = decide(cluster, migRequest("1g.5gb"));
  EXPECT_EQ(cardOf(decision), cardName(1));
  EXPECT_EQ(decision.placements.front().charged.slots.bits, 1u << 4);
  EXPECT_EQ(cardOf(decide(cluster, migRequest("3g.20gb"))), cardName(0)) << "the only card that loses no 4g or 7g";
}

TEST(MigCardChoice, EqualLoss_TheCardPolicyThenTheIndex) {
  Cluster cluster = nodeWith(3, mig::testing::a100());
  put(cluster, 1, "1g.5gb", 6);
  put(cluster, 2, "1g.10gb", 6);
  EXPECT_EQ(cardOf(decide(cluster, migRequest("1g.5gb"))), cardName(2)) << "equal loss, and more memory is used";
  Cluster empty = nodeWith(3, mig::testing::a100());
  EXPECT_EQ(cardOf(decide(empty, migRequest("1g.5gb"))), cardName(0));
}

TEST(MigCardChoice, OtherPolicies_ChooseTheCardThemselves) {
  Cluster cluster = nodeWith(3, mig::testing::a100());
  put(cluster, 0, "4g.20gb", 0);
  put(cluster, 1, "1g.5gb", 6);
  EXPECT_EQ(cardOf(decide(cluster, migRequest("1g.5gb", 1, "spread"))), cardName(2));
  EXPECT_EQ(cardOf(decide(cluster, migRequest("1g.5gb", 1, "simple"))), cardName(0));
  EXPECT_EQ(cardOf(decide(cluster, migRequest("1g.5gb", 1, "low-load-first"))), cardName(2));
}

TEST(MigCardChoice, PinnedCard_WhateverItsLoss) {
  Cluster cluster = nodeWith(3, mig::testing::a100());
  put(cluster, 1, "1g.5gb", 6);
  Request request = migRequest("1g.5gb");
  request.pinnedCards = {cardName(2)};
  EXPECT_EQ(cardOf(decide(cluster, request)), cardName(2));
}

TEST(MigCardChoice, SeveralInstances_TheLossOfAllOfThem) {
  Cluster cluster = nodeWith(2, mig::testing::a100());
  put(cluster, 0, "1g.5gb", 0);
  put(cluster, 1, "3g.20gb", 4);
  // On card 1 both are in the lower half, where 4g could start; on card 0 that half is lost already.
  EXPECT_EQ(cardOf(decide(cluster, migRequest("1g.5gb", 3))), cardName(0));
}

/// Usage of one card by the choices that the scheduler is compared with.
struct UsedCard {
  Slots slots;
  Amount amount;
};

/// Returns the card and slots of a choice that looks at the cards as plain loops.
using Choice = std::optional<std::pair<std::size_t, Slots>> (*)(const mig::Profiles&, const MigProfile&,
                                                                const std::vector<UsedCard>&);

/// The first card and slot that fit.
std::optional<std::pair<std::size_t, Slots>> firstFit(const mig::Profiles& /*table*/, const MigProfile& profile,
                                                      const std::vector<UsedCard>& cards) {
  for (std::size_t i = 0; i < cards.size(); ++i)
    for (unsigned start = 0; start < Slots::kMemory; ++start)
      if (profile.fitsAt(start, cards[i].slots)) return std::pair(i, profile.slotsFrom(start));
  return std::nullopt;
}

/// The fullest card that fits, and the least loss on it.
std::optional<std::pair<std::size_t, Slots>> fullest(const mig::Profiles& table, const MigProfile& profile,
                                                     const std::vector<UsedCard>& cards) {
  std::optional<std::size_t> best;
  const auto fill = [&](std::size_t i) { return fillOf(cards[i].amount, {1000, 40 * kGi, {}}); };
  for (std::size_t i = 0; i < cards.size(); ++i)
    if (mig::canPlace(profile, 1, cards[i].slots) && (!best || fill(i) > fill(*best))) best = i;
  if (!best) return std::nullopt;
  return std::pair(*best, *mig::chooseSlots(table, profile, 1, cards[*best].slots));
}

struct Rejections {
  int byScheduler = 0, byFullest = 0, byFirstFit = 0;
};

/// Arrivals of instances of random profiles with random lifetimes. load: mean requested slots, as a share of all.
class Arrivals {
 public:
  struct Arrival {
    std::size_t profile;
    int until;
  };
  Arrivals(const mig::Profiles& table, std::size_t cards, double load, unsigned seed, int count) {
    double size = 0;
    for (const MigProfile& profile : table) size += static_cast<double>(profile.size);
    size /= static_cast<double>(table.size());
    const auto maxLife = static_cast<uint64_t>(2 * load * static_cast<double>(cards * Slots::kMemory) / size);
    std::mt19937 random(seed);
    for (int now = 0; now < count; ++now) {
      const std::size_t profile = random() % table.size();
      all_.push_back({profile, now + 1 + static_cast<int>(random() % std::max<uint64_t>(1, maxLife))});
    }
  }
  const std::vector<Arrival>& all() const { return all_; }

 private:
  std::vector<Arrival> all_;
};

/// An instance that was placed.
struct PlacedInstance {
  int until;
  std::size_t card;
  Slots slots;
  Amount amount;
  std::string device{};
};

int rejections(const mig::Profiles& table, std::size_t cards, const Arrivals& arrivals, Choice choice) {
  std::vector<UsedCard> state(cards);
  std::vector<PlacedInstance> running;
  int rejected = 0, now = 0;
  for (const auto& [number, until] : arrivals.all()) {
    std::erase_if(running, [&](const PlacedInstance& each) {
      if (each.until > now) return false;
      UsedCard& card = state[each.card];
      card.slots = card.slots.without(each.slots);
      card.amount = {card.amount.core - each.amount.core, card.amount.memory - each.amount.memory, {}};
      return true;
    });
    ++now;
    const auto found = choice(table, table[number], state);
    if (!found) {
      ++rejected;
      continue;
    }
    const Amount amount = amountOf(table[number]);
    UsedCard& card = state[found->first];
    card.slots = card.slots.with(found->second);
    card.amount = {card.amount.core + amount.core, card.amount.memory + amount.memory, {}};
    running.push_back({until, found->first, found->second, amount});
  }
  return rejected;
}

/// As above, decided by the scheduler. Sets `trace` to the placements.
int rejections(const mig::Profiles& table, std::size_t cards, const Arrivals& arrivals, std::string& trace) {
  Cluster cluster = nodeWith(cards, table);
  std::vector<PlacedInstance> running;
  int rejected = 0, now = 0;
  for (const auto& [number, until] : arrivals.all()) {
    std::erase_if(running, [&](const PlacedInstance& each) {
      if (each.until > now) return false;
      cluster.giveBack(cardName(each.card), each.device);
      return true;
    });
    ++now;
    const Decision decision = decide(cluster, migRequest(mig::keyOf(table[number].name)));
    if (!decision.fits) {
      ++rejected;
      continue;
    }
    const std::string device = "d" + std::to_string(now);
    commit(cluster, decision, device);
    const Placement& placed = decision.placements.front();
    std::size_t card = 0;
    while (cardName(card) != placed.card) ++card;
    running.push_back({until, card, placed.charged.slots, placed.charged, device});
    trace += placed.card + ":" + std::to_string(placed.charged.slots.bits) + "\n";
  }
  return rejected;
}

TEST(MigCardChoice, RandomArrivals_FewerRejectionsThanFirstFitAndTheFullestCard) {
  mig::Profiles table = mig::testing::a100();
  table.pop_back();  // without 7g, for which every choice of slots is the same
  constexpr int kArrivals = 4000;
  for (const std::size_t cards : {std::size_t{4}, std::size_t{16}})
    for (const double load : {0.7, 0.9}) {
      Rejections sum;
      for (const unsigned seed : {1u, 2u, 3u}) {
        const Arrivals arrivals(table, cards, load, seed, kArrivals);
        std::string trace, again;
        sum.byScheduler += rejections(table, cards, arrivals, trace);
        sum.byFullest += rejections(table, cards, arrivals, fullest);
        sum.byFirstFit += rejections(table, cards, arrivals, firstFit);
        if (seed > 1) continue;
        rejections(table, cards, arrivals, again);
        EXPECT_EQ(trace, again) << "decisions must be deterministic";
      }
      std::cout << cards << " cards, load " << load << ", rejected of " << 3 * kArrivals << ": " << sum.byScheduler
                << " by the scheduler, " << sum.byFullest << " on the fullest card, " << sum.byFirstFit
                << " by first fit\n";
      EXPECT_LT(sum.byScheduler, sum.byFullest);
      EXPECT_LT(sum.byFullest, sum.byFirstFit);
    }
}

}  // namespace
}  // namespace egpu::scheduler::testing
