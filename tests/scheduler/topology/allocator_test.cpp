// Sets of cards of one node: the three methods, DGX machines, and allocation and release.
#include "tests/scheduler/topology/allocator.h"

#include <gtest/gtest.h>

#include "tests/scheduler/topology/nodes.h"

namespace egpu::scheduler::topology::testing {
namespace {

using Cards = Allocator::Cards;
const Cards kAll8{0, 1, 2, 3, 4, 5, 6, 7};

TEST(Simple, RequiredCardsThenTheLowest) {
  const Allocator allocator(plainNode(8), Method::simple);
  EXPECT_EQ(allocator.choose(kAll8, {}, 3), (Cards{0, 1, 2}));
  EXPECT_EQ(allocator.choose({7, 5, 3}, {7}, 2), (Cards{3, 7}));
  EXPECT_EQ(allocator.choose({5, 7}, {}, 3), Cards{});
}

TEST(BestEffort, ThroughTheAllocator) {
  const Allocator allocator(dgx1Volta(), Method::bestEffort);
  EXPECT_EQ(allocator.choose({0, 1, 2, 3}, {}, 2), (Cards{0, 3}));
  EXPECT_EQ(allocator.choose({0, 1, 2, 3, 4}, {}, 3).size(), 3u);
  EXPECT_EQ(allocator.choose(kAll8, {2}, 4), (Cards{0, 1, 2, 3}));
}

TEST(FixedSets, OfADgx1) {
  const Allocator pascal(dgx1Pascal(), Method::fixedSets), volta(dgx1Volta(), Method::fixedSets);
  for (const auto& [allocator, pairs] :
       {std::pair<const Allocator&, std::vector<Cards>>{pascal, {{0, 2}, {1, 3}, {4, 6}, {5, 7}}},
        {volta, {{0, 3}, {1, 2}, {4, 7}, {5, 6}}}}) {
    for (const Cards& pair : pairs) {
      EXPECT_EQ(allocator.choose(pair, {}, 2), pair);
      EXPECT_EQ(allocator.choose(kAll8, {pair[1]}, 2), pair);
    }
    EXPECT_EQ(allocator.choose(kAll8, {}, 2), pairs[0]);
    EXPECT_EQ(allocator.choose({0, 1, 4, 5}, {}, 2), Cards{}) << "no pair of these is wired for it";
    EXPECT_EQ(allocator.choose(kAll8, {}, 1), Cards{0});
    EXPECT_EQ(allocator.choose(kAll8, {6}, 4), (Cards{4, 5, 6, 7}));
    EXPECT_EQ(allocator.choose({1, 2, 3, 4, 5, 6, 7}, {}, 4), (Cards{4, 5, 6, 7}));
    EXPECT_EQ(allocator.choose({1, 2, 3, 4, 5, 6}, {}, 4), Cards{});
    EXPECT_EQ(allocator.choose(kAll8, {}, 8), kAll8);
    for (const uint32_t size : {0u, 3u, 5u, 6u, 7u, 9u, 16u}) EXPECT_EQ(allocator.choose(kAll8, {}, size), Cards{});
    EXPECT_EQ(allocator.choose(kAll8, {0, 7}, 4), Cards{}) << "not in one set";
  }
}

TEST(FixedSets, OfADgx2) {
  const Allocator allocator(dgx2(), Method::fixedSets);
  Cards all;
  for (uint32_t i = 0; i < 16; ++i) all.push_back(i);
  EXPECT_EQ(allocator.choose(all, {}, 2), (Cards{0, 1}));
  EXPECT_EQ(allocator.choose(all, {7}, 2), (Cards{6, 7}));
  EXPECT_EQ(allocator.choose({1, 2, 4, 5}, {}, 2), (Cards{4, 5}));
  EXPECT_EQ(allocator.choose(all, {13}, 4), (Cards{12, 13, 14, 15}));
  EXPECT_EQ(allocator.choose(all, {13}, 8), (Cards{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(allocator.choose(all, {}, 16), all);
  EXPECT_EQ(allocator.choose(all, {3}, 1), Cards{3});
  for (const uint32_t size : {3u, 5u, 6u, 7u, 9u, 12u, 15u}) EXPECT_EQ(allocator.choose(all, {}, size), Cards{});
}

Machine recognise(const std::vector<v1alpha::Card>& cards) { return recogniseMachine(sitesOf(cards)); }

TEST(Machines, AreKnownByModelAndLinks) {
  EXPECT_EQ(recognise(dgx1Pascal()), Machine::dgx1Pascal);
  EXPECT_EQ(recognise(dgx1Volta()), Machine::dgx1Volta);
  EXPECT_EQ(recognise(dgx2()), Machine::dgx2);
  EXPECT_EQ(recognise(plainNode(8, "V100-PCIE-16GB")), Machine::other) << "the model alone is no machine";
  EXPECT_EQ(recognise(plainNode(16, "V100-SXM3-32GB")), Machine::other);
  EXPECT_EQ(recognise({}), Machine::other);

  std::vector<v1alpha::Card> cards = dgx1Volta();
  for (v1alpha::Card& card : cards) card.model = "A100";
  EXPECT_EQ(recognise(cards), Machine::other) << "nor are the links";
  cards = dgx1Volta();
  cards[3].model = "P100";
  EXPECT_EQ(recognise(cards), Machine::other);
  cards = dgx1Volta();
  cards[0].topology.links.front().count = 1;
  EXPECT_EQ(recognise(cards), Machine::other) << "a link is down";
  cards = dgx1Volta();
  std::swap(cards[0].index, cards[1].index);
  EXPECT_EQ(recognise(cards), Machine::other) << "the sets are of indexes";
  cards = dgx1Volta();
  cards.pop_back();
  EXPECT_EQ(recognise(cards), Machine::other);
  cards = dgx2();
  cards[9].topology.links.pop_back();
  EXPECT_EQ(recognise(cards), Machine::other);
  const Allocator none(plainNode(8), Method::fixedSets);
  for (uint32_t size = 1; size <= 8; ++size) EXPECT_EQ(none.choose(kAll8, {}, size), Cards{});
}

TEST(Allocator, NonsenseGivesNothing) {
  for (const Method method : {Method::simple, Method::bestEffort, Method::fixedSets}) {
    const Allocator allocator(dgx1Volta(), method);
    EXPECT_EQ(allocator.choose(kAll8, {}, 0), Cards{});
    EXPECT_EQ(allocator.choose(kAll8, {}, 9), Cards{});
    EXPECT_EQ(allocator.choose({0, 0, 3}, {}, 2), Cards{}) << "named twice";
    EXPECT_EQ(allocator.choose({0, 3, 99}, {}, 2), Cards{}) << "not there";
    EXPECT_EQ(allocator.choose({0, 3}, {99}, 2), Cards{});
    EXPECT_EQ(allocator.choose({0, 3}, {1}, 2), Cards{}) << "required, but not available";
    EXPECT_EQ(allocator.choose(kAll8, {0, 1, 2}, 2), Cards{}) << "more required than wanted";
  }
}

TEST(Allocator, TakesAllOrNothingAndGivesBack) {
  Allocator allocator(dgx1Volta(), Method::bestEffort);
  EXPECT_EQ(allocator.freeCards(), kAll8);
  const Cards four = allocator.allocate(4);
  EXPECT_EQ(four.size(), 4u);
  EXPECT_EQ(allocator.freeCards().size(), 4u);
  EXPECT_EQ(allocator.allocate(5), Cards{});
  EXPECT_EQ(allocator.freeCards().size(), 4u) << "nothing was taken";

  const Cards left = allocator.freeCards();
  EXPECT_FALSE(allocator.allocateSpecific({left[0], four[0]})) << "one is taken";
  EXPECT_FALSE(allocator.allocateSpecific({left[0], left[0]}));
  EXPECT_FALSE(allocator.allocateSpecific({left[0], 42}));
  EXPECT_EQ(allocator.freeCards(), left) << "all or nothing";
  EXPECT_TRUE(allocator.allocateSpecific({left[1], left[0]}));
  EXPECT_EQ(allocator.freeCards(), (Cards{left[2], left[3]}));

  EXPECT_FALSE(allocator.free({left[0], left[2]})) << "one is free already";
  EXPECT_EQ(allocator.freeCards().size(), 2u);
  EXPECT_TRUE(allocator.free(four));
  EXPECT_TRUE(allocator.free({left[0], left[1]}));
  EXPECT_EQ(allocator.freeCards(), kAll8);
  EXPECT_TRUE(allocator.allocateSpecific({})) << "none of none";
}

TEST(Allocator, LinksThatOnlyOneSideKnowsAreNoStumblingBlock) {
  std::vector<v1alpha::Card> cards = plainNode(4);
  cards[0].topology.links.push_back({cards[1].uuid, "nvlink", 2});
  cards[2].topology.links.push_back({"GPU-gone", "nvlink", 2});
  link(cards, 2, 3, "nvlink", 1);
  Allocator allocator(cards, Method::bestEffort);
  EXPECT_EQ(allocator.allocate(2), (Cards{2, 3}));
}

}  // namespace
}  // namespace egpu::scheduler::topology::testing
