// Compares the best-effort choice with trying all divisions, and tests cases that other implementations get wrong.
#include "controller/scheduler/topology/best_effort.h"

#include <gtest/gtest.h>

#include "controller/scheduler/topology/wiring.h"
#include "tests/scheduler/topology/nodes.h"

namespace egpu::scheduler::topology::testing {
namespace {

Set cards(std::initializer_list<int> numbers) {
  Set set = 0;
  for (const int n : numbers) set |= Set{1} << n;
  return set;
}

TEST(BestEffort, TheExampleOfTheHeader) {
  const PairScores scores = scoresOf(dgx1Volta());
  const Choice choice = bestEffort(scores, {cards({0, 1, 2, 3}), 2, 0, 0});
  EXPECT_EQ(choice.cards, cards({0, 3}));
  EXPECT_EQ(choice.score, 200);
  EXPECT_EQ(choice.total, 400);
  EXPECT_EQ(choice.gap(), 0);
  EXPECT_EQ(bestEffort(scores, {cards({0, 1, 2, 3}), 2, cards({2}), 0}).cards, cards({1, 2}));
  EXPECT_EQ(bestEffort(scores, {cards({0, 1, 2, 3}), 2, 0, cards({3})}).cards, cards({1, 2}))
      << "0 is left alone, in the smaller set";
}

TEST(BestEffort, EveryMaskAndSizeOfADgx1Volta) {
  const PairScores scores = scoresOf(dgx1Volta());
  const Wiring wiring(scores);
  int asked = 0;
  for (Set available = 1; available < 256; ++available) {
    for (std::size_t size = 0; size <= 9; ++size) {
      const Choice want = everyDivision(scores, {available, size, 0, 0});
      const Choice got = bestEffort(scores, {available, size, 0, 0});
      ASSERT_EQ(got, want) << "available " << available << ", " << size;
      ASSERT_EQ(wiring.best(available, size), want.cards) << "available " << available << ", " << size;
      ++asked;
    }
  }
  EXPECT_EQ(asked, 255 * 10);
}

TEST(BestEffort, RandomLinksUpToTenCards) {
  Random random(1);
  for (int round = 0; round < 400; ++round) {
    const std::size_t n = static_cast<std::size_t>(pick(random, 2, round < 380 ? 8 : 10));
    const PairScores scores = randomScores(random, n);
    const Wiring wiring(scores);
    CardSetRequest wish;
    wish.available = random() & firstOf(n);
    wish.size = static_cast<std::size_t>(pick(random, 1, static_cast<int64_t>(n)));
    if (pick(random, 0, 1) == 0) wish.required = random() & random() & firstOf(n);
    if (pick(random, 0, 2) == 0) wish.avoided = random() & random() & random() & firstOf(n);
    const Choice want = everyDivision(scores, wish);
    ASSERT_EQ(bestEffort(scores, wish), want) << "round " << round;
    ASSERT_EQ(wiring.choose(wish), want) << "round " << round;
  }
}

TEST(BestEffort, OnlyAdmittedSetsAreGivenButTheRestIsDividedFreely) {
  Random random(2);
  for (int round = 0; round < 200; ++round) {
    const std::size_t n = static_cast<std::size_t>(pick(random, 2, 8));
    const PairScores scores = randomScores(random, n);
    const Set liked = random() & firstOf(n);
    const Admits admits = [liked](Set set) { return count(set & liked) * 2 >= count(set); };
    CardSetRequest wish;
    wish.available = firstOf(n);
    wish.size = static_cast<std::size_t>(pick(random, 1, static_cast<int64_t>(n)));
    if (pick(random, 0, 2) == 0)
      wish.required = only(static_cast<std::size_t>(pick(random, 0, static_cast<int64_t>(n) - 1)));
    ASSERT_EQ(bestEffort(scores, wish, admits), everyDivision(scores, wish, admits)) << "round " << round;
    ASSERT_EQ(Wiring(scores).choose(wish, admits), everyDivision(scores, wish, admits)) << "round " << round;
  }
}

TEST(BestEffort, ThreeOfFiveAreThreeCards) {
  Random random(3);
  for (int round = 0; round < 100; ++round) {
    const Choice choice = bestEffort(randomScores(random, 5), {firstOf(5), 3, 0, 0});
    EXPECT_EQ(count(choice.cards), 3u) << "never the set that was left smaller";
  }
}

TEST(BestEffort, WhatIsImpossibleGivesNothing) {
  const PairScores scores = scoresOf(dgx1Volta());
  const CardSetRequest wishes[] = {
      {firstOf(8), 0, 0, 0},                 // nothing wanted
      {firstOf(8), 9, 0, 0},                 // too many
      {cards({1, 2}), 3, 0, 0},              // too few available
      {firstOf(8), 2, cards({0, 1, 2}), 0},  // more required than wanted
      {cards({1, 2, 3}), 2, cards({0}), 0},  // a required card is not available
      {firstOf(8), 2, cards({0}), cards({0})},
      {cards({8, 9, 10}), 2, 0, 0},  // cards that the node does not have
      {0, 1, 0, 0},
  };
  for (const CardSetRequest& wish : wishes) {
    EXPECT_EQ(bestEffort(scores, wish), Choice{});
    EXPECT_EQ(Wiring(scores).choose(wish), Choice{});
  }
}

TEST(BestEffort, ASingleCardIsTheLowest) {
  const PairScores scores = scoresOf(dgx1Volta());
  EXPECT_EQ(bestEffort(scores, {cards({5, 6, 7}), 1, 0, 0}).cards, cards({5}));
  EXPECT_EQ(bestEffort(scores, {cards({5, 6, 7}), 1, cards({6}), 0}).cards, cards({6}));
  EXPECT_EQ(bestEffort(scores, {cards({5, 6, 7}), 1, 0, 0}, [](Set set) { return set == Set{1} << 7; }).cards,
            cards({7}));
}

TEST(BestEffort, AFlatNodeGivesTheLowestCardsAndTheTrueSums) {
  for (std::size_t n : {5, 12, 16}) {
    PairScores scores(n);
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = a + 1; b < n; ++b) scores.set(a, b, 600);
    ASSERT_TRUE(scores.flat());
    const Wiring wiring(scores);
    for (std::size_t size = 2; size <= n; ++size)
      EXPECT_EQ(wiring.choose({firstOf(n), size, only(2), 0}), bestEffort(scores, {firstOf(n), size, only(2), 0}))
          << size;
    EXPECT_EQ(wiring.best(firstOf(n), 3), firstOf(3));
  }
}

// 11 … 16 cards have too many divisions to try; but the solution of a subset must agree with the solution of the whole.
TEST(BestEffort, LargeNodesAreSolvedLikeSmallOnes) {
  Random random(4);
  for (std::size_t n = 11; n <= 16; ++n) {
    const PairScores scores = randomScores(random, n);
    for (std::size_t size = 2; size <= 8; ++size) {
      const Choice choice = bestEffort(scores, {firstOf(n), size, 0, 0});
      ASSERT_EQ(count(choice.cards), size);
      EXPECT_EQ(choice.score, scoreOf(scores, choice.cards));
      EXPECT_EQ(choice.gap(), 0);
      if (n > size) {  // the rest of the best division is the best division of the rest
        const Set left = firstOf(n) & ~choice.cards;
        const int64_t rest = count(left) < size ? scoreOf(scores, left) : bestEffort(scores, {left, size, 0, 0}).total;
        EXPECT_EQ(choice.total, choice.score + rest) << n << " cards, " << size;
      }
      // No other set scores better when it is required.
      for (int i = 0; i < 5; ++i) {
        const Set pair = only(static_cast<std::size_t>(pick(random, 0, static_cast<int64_t>(n) - 1)));
        const Choice forced = bestEffort(scores, {firstOf(n), size, pair, 0});
        EXPECT_LE(forced.total, choice.total);
        if (forced.total == choice.total) {
          EXPECT_LE(forced.score, choice.score);
        }
      }
    }
  }
}

TEST(Bounded, IsCloseAndReportsHowClose) {
  Random random(5);
  // If all pairs are equal, no set is better: no gap, whatever remains.
  PairScores alike(24);
  for (std::size_t a = 0; a < 24; ++a)
    for (std::size_t b = a + 1; b < 24; ++b) alike.set(a, b, 1200);
  for (std::size_t size : {2, 5, 7, 8, 23, 24}) {
    const Choice choice = bestEffort(alike, {firstOf(24), size, 0, 0});
    EXPECT_EQ(count(choice.cards), size);
    EXPECT_EQ(choice.gap(), 0) << size;
  }
  // Four boxes of eight cards, well linked inside: a set of eight is a box.
  PairScores boxes(32);
  for (std::size_t a = 0; a < 32; ++a)
    for (std::size_t b = a + 1; b < 32; ++b) boxes.set(a, b, a % 4 == b % 4 ? 600 : 10);
  const Choice box = bestEffort(boxes, {firstOf(32), 8, only(5), 0});
  EXPECT_EQ(box.cards, 0x22222222u);
  EXPECT_EQ(box.gap(), 0);
  // Random links: the result is never above the bound, and the set is valid.
  for (std::size_t n : {17, 20, 33, 64}) {
    const PairScores scores = randomScores(random, n);
    for (std::size_t size : {2, 3, 4, 8, 16}) {
      const Set required = size > 2 ? only(n - 1) | only(1) : 0;
      const Choice choice = bestEffort(scores, {firstOf(n), size, required, only(3)});
      ASSERT_EQ(count(choice.cards), size);
      EXPECT_EQ(choice.cards & required, required);
      EXPECT_EQ(choice.cards & only(3), 0u);
      EXPECT_EQ(choice.score, scoreOf(scores, choice.cards));
      EXPECT_GE(choice.gap(), 0);
      EXPECT_EQ(choice, bestEffort(scores, {firstOf(n), size, required, only(3)})) << "the same again";
    }
  }
}

// With few cards both methods can run: the bound holds, and the reported gap is at least the true one.
TEST(Bounded, TheGapIsNoUnderstatement) {
  Random random(6);
  for (int round = 0; round < 60; ++round) {
    // Padding cards without links extend 8 cards to 17: they end up in sets of their own, or fill up the rest.
    const PairScores small = randomScores(random, 8);
    PairScores large(17);
    for (std::size_t a = 0; a < 8; ++a)
      for (std::size_t b = a + 1; b < 8; ++b) large.set(a, b, small.at(a, b));
    const Choice exact = everyDivision(small, {firstOf(8), 2, 0, 0});
    const Choice found = bestEffort(large, {firstOf(17), 2, 0, 0});
    EXPECT_LE(found.total, exact.total);
    EXPECT_GE(found.bound, exact.total);
  }
}

TEST(Wirings, AreSharedByNodesThatAreWiredAlike) {
  Wirings wirings;
  auto of = [&](const std::vector<v1alpha::Card>& cards) { return wirings.of(sitesOf(cards)); };
  const auto one = of(dgx1Volta()), other = of(dgx1Volta());
  EXPECT_EQ(one, other);
  EXPECT_NE(of(dgx1Pascal()), one);
  EXPECT_EQ(of(plainNode(8)), nullptr) << "cards that say nothing of each other need no wiring";
  EXPECT_EQ(wirings.size(), 2u);
  Wirings copy = wirings;
  EXPECT_EQ(copy.of({}), nullptr);
  EXPECT_EQ(copy.size(), 2u);
}

TEST(Wirings, ForgetsTheUnusedButNotTheUsed) {
  Wirings wirings;
  std::vector<std::shared_ptr<const Wiring>> held;
  for (int64_t i = 0; i < 3000; ++i) {
    std::vector<v1alpha::Card> cards = plainNode(3);
    link(cards, 0, 1, "nvlink", 1 + i % 50);
    link(cards, 1, 2, "nvlink", 1 + i / 50);
    const auto wiring = wirings.of(sitesOf(cards));
    if (i % 300 == 0) held.push_back(wiring);
  }
  EXPECT_LE(wirings.size(), 1100u);
  EXPECT_EQ(held.size(), 10u);
  for (const auto& wiring : held)
    EXPECT_EQ(wiring->best(0b111, 2), wiring->scores().at(0, 1) >= wiring->scores().at(1, 2) ? 0b011u : 0b110u);
}

}  // namespace
}  // namespace egpu::scheduler::topology::testing
