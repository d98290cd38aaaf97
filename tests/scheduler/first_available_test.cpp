// Compares the order in which alternatives are tried with loops that decide each of them as the only one.
#include "controller/scheduler/first_available.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "controller/scheduler/choice/colocate.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler {
namespace {

using testing::kGi;
using testing::makeCard;
using testing::pick;
using testing::Random;

using Decisions = std::vector<Decision>;
using Alternatives = std::vector<Request>;

Cluster anyCluster(Random& random) {
  Cluster cluster;
  for (int node = 0; node < 3; ++node) {
    const auto name = "n" + std::to_string(node);
    cluster.upsertNode({name, true});
    for (int card = 0; card < 2; ++card) {
      const auto info = makeCard(name + "-" + std::to_string(card), name, card, 32 * kGi, card == 0 ? "V100" : "T4");
      cluster.upsertCard(info);
      if (pick(random, 0, 2) > 0)
        cluster.take(info.name, "used", {pick(random, 1, 9) * 100, pick(random, 1, 15) * 2 * kGi});
    }
  }
  return cluster;
}

Request anyRequest(Random& random) {
  Request request;
  request.cards = pick(random, 1, 2);
  request.wholeCards = pick(random, 0, 3) == 0;
  request.perCard = {pick(random, 1, 10) * 100, pick(random, 1, 16) * 2 * kGi};
  if (pick(random, 0, 2) == 0) request.models = {pick(random, 0, 1) == 0 ? "V100" : "T4"};
  return request;
}

Alternatives anyAlternatives(Random& random) {
  Alternatives all(static_cast<std::size_t>(pick(random, 1, 4)));
  for (auto& each : all) each = anyRequest(random);
  return all;
}

/// The simplest model: each alternative is a claim of its own.
std::vector<Decision> plainFirst(const Cluster& cluster, const Alternatives& alternatives) {
  std::vector<Decision> tried;
  for (const auto& alternative : alternatives) {
    tried.push_back(decide(cluster, alternative));
    tried.back().alternative = tried.size() - 1;
    if (tried.back().fits) return tried;
  }
  return tried;
}

TEST(FirstAvailable, OfOneClaimAsEachByItself) {
  Random random(1);
  int later = 0;
  for (int round = 0; round < 2000; ++round) {
    const auto cluster = anyCluster(random);
    const auto alternatives = anyAlternatives(random);
    const auto decided = decideFirst(
        alternatives.size(), [&](std::size_t which) { return std::optional(decide(cluster, alternatives[which])); });
    ASSERT_EQ(decided, plainFirst(cluster, alternatives));
    later += decided.back().fits && decided.back().alternative > 0 ? 1 : 0;
  }
  EXPECT_GT(later, 100) << "hardly anything is tried after the first";
}

TEST(FirstAvailable, WhatCantBeDecidedNowEndsIt) {
  const auto decided =
      decideFirst(3, [](std::size_t which) { return which == 1 ? std::nullopt : std::optional<Decision>(Decision{}); });
  EXPECT_EQ(decided.size(), 1u);
}

/// Tries all combinations of several claims; the last claim's alternatives vary fastest.
std::pair<std::vector<std::size_t>, Decisions> plainTogether(Cluster& cluster, const std::vector<Alternatives>& claims,
                                                             std::vector<std::size_t> at = {}) {
  if (at.size() == claims.size()) {
    std::vector<Request> requests;
    for (std::size_t i = 0; i < at.size(); ++i) requests.push_back(claims[i][at[i]]);
    return {at, decideTogether(cluster, requests).decisions};
  }
  for (std::size_t which = 0; which < claims[at.size()].size(); ++which) {
    at.push_back(which);
    auto found = plainTogether(cluster, claims, at);
    if (!found.second.empty()) return found;
    at.pop_back();
  }
  return {};
}

TEST(FirstAvailable, OfSeveralClaimsTheFirstCombinationThatFitsWhateverIsPassedOver) {
  Random random(2);
  int later = 0, none = 0;
  for (int round = 0; round < 1000; ++round) {
    auto cluster = anyCluster(random);
    std::vector<Alternatives> claims(static_cast<std::size_t>(pick(random, 1, 3)));
    std::vector<std::size_t> counts;
    for (auto& claim : claims) counts.push_back((claim = anyAlternatives(random)).size());
    Combinations combinations(counts);
    Together together;
    do {
      std::vector<Request> requests;
      for (std::size_t i = 0; i < claims.size(); ++i) requests.push_back(claims[i][combinations.at()[i]]);
      together = decideTogether(cluster, requests);
      for (std::size_t i = 0; i < claims.size(); ++i)
        if (!together.alone[i]) combinations.ruleOut(i, combinations.at()[i]);
    } while (together.decisions.empty() && combinations.next());
    const auto plain = plainTogether(cluster, claims);
    ASSERT_EQ(together.decisions, plain.second);
    if (!plain.second.empty()) {
      ASSERT_EQ(combinations.at(), plain.first);
    }
    none += plain.second.empty() ? 1 : 0;
    later += !plain.second.empty() && plain.first != std::vector<std::size_t>(claims.size(), 0) ? 1 : 0;
  }
  EXPECT_GT(later, 50);
  EXPECT_GT(none, 50);
}

TEST(Combinations, CountUpFromTheLastAndPassOverWhatIsHopeless) {
  Combinations all({2, 3});
  std::vector<std::vector<std::size_t>> seen{all.at()};
  while (all.next()) seen.push_back(all.at());
  EXPECT_EQ(seen, (std::vector<std::vector<std::size_t>>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}));
  Combinations some({2, 3});
  some.ruleOut(0, 0);
  some.ruleOut(1, 1);
  seen.clear();
  while (some.next()) seen.push_back(some.at());
  EXPECT_EQ(seen, (std::vector<std::vector<std::size_t>>{{1, 0}, {1, 2}}));
}

TEST(Combinations, NoMoreThanThereIsPatienceFor) {
  Combinations all({8, 8, 8});
  EXPECT_EQ(all.size(), Combinations::kMax);
  std::size_t seen = 1;
  while (all.next()) ++seen;
  EXPECT_EQ(seen, Combinations::kMax);
  Combinations one({1});
  EXPECT_EQ(one.size(), 1u);
  EXPECT_FALSE(one.next());
}

}  // namespace
}  // namespace egpu::scheduler
