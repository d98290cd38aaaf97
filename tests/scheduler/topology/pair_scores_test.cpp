// Scores of pairs of cards of a node.
#include "controller/scheduler/topology/pair_scores.h"

#include <gtest/gtest.h>

#include "tests/scheduler/topology/nodes.h"

namespace egpu::scheduler::topology::testing {
namespace {

int32_t scoreOfTwo(const std::vector<v1alpha::Card>& cards) { return scoresOf(cards).at(0, 1); }

TEST(PairScores, PerTypeOfLink) {
  const std::pair<const char*, int32_t> paths[] = {{"system", 10},       {"cpu", 20},    {"hostbridge", 30},
                                                   {"multiple", 40},     {"single", 50}, {"board", 60},
                                                   {"carrier pigeon", 0}};
  for (const auto& [type, score] : paths) {
    std::vector<v1alpha::Card> cards = plainNode(2);
    link(cards, 0, 1, type);
    EXPECT_EQ(scoreOfTwo(cards), score) << type;
    link(cards, 0, 1, "nvlink", 3);
    EXPECT_EQ(scoreOfTwo(cards), score + 300) << type;
  }
}

TEST(PairScores, TheBestPathCountsOnce) {
  std::vector<v1alpha::Card> cards = plainNode(2);
  link(cards, 0, 1, "system");
  link(cards, 0, 1, "single");
  EXPECT_EQ(scoreOfTwo(cards), 50);
}

TEST(PairScores, LinksAddUp) {
  std::vector<v1alpha::Card> cards = plainNode(2);
  link(cards, 0, 1, "nvlink", 1);
  link(cards, 0, 1, "nvlink", 1);
  EXPECT_EQ(scoreOfTwo(cards), 200);
  EXPECT_EQ(nvlinks(Site::of(cards[0]), Site::of(cards[1])), 2);
}

TEST(PairScores, SwitchLinksCountAsFarAsBothSidesHaveThem) {
  std::vector<v1alpha::Card> cards = plainNode(2);
  cards[0].topology.links.push_back({cards[1].uuid, "nvswitch", 18});
  EXPECT_EQ(scoreOfTwo(cards), 0) << "the other end is silent";
  cards[1].topology.links.push_back({cards[0].uuid, "nvswitch", 17});
  EXPECT_EQ(scoreOfTwo(cards), 1700);
  EXPECT_EQ(switchLinks(Site::of(cards[1]), Site::of(cards[0])), 17);
}

TEST(PairScores, AsymmetricLinksAreNoStumblingBlock) {
  std::vector<v1alpha::Card> cards = plainNode(2);
  cards[0].topology.links.push_back({cards[1].uuid, "nvlink", 2});
  cards[0].topology.links.push_back({cards[1].uuid, "single", 0});
  EXPECT_EQ(scoreOfTwo(cards), 0);
  cards[1].topology.links.push_back({cards[0].uuid, "nvlink", 1});
  EXPECT_EQ(scoreOfTwo(cards), 100);
  EXPECT_EQ(scoresOf(cards).at(1, 0), 100);
}

TEST(PairScores, NumaStandsInForAnUnknownPath) {
  std::vector<v1alpha::Card> cards = plainNode(2);
  cards[0].topology.numa = 0;
  EXPECT_EQ(scoreOfTwo(cards), 0);
  cards[1].topology.numa = 0;
  EXPECT_EQ(scoreOfTwo(cards), 20);
  cards[1].topology.numa = 1;
  EXPECT_EQ(scoreOfTwo(cards), 10);
  link(cards, 0, 1, "hostbridge");
  EXPECT_EQ(scoreOfTwo(cards), 30);
}

TEST(PairScores, LinksToStrangersAndAbsurdCountsAreHarmless) {
  std::vector<v1alpha::Card> cards = plainNode(2);
  cards[0].topology.links.push_back({"GPU-elsewhere", "nvlink", 4});
  cards[0].topology.links.push_back({cards[0].uuid, "nvlink", 4});
  EXPECT_EQ(scoreOfTwo(cards), 0);
  link(cards, 0, 1, "nvlink", INT64_MAX);
  link(cards, 0, 1, "nvswitch", INT64_MAX);
  EXPECT_EQ(scoreOfTwo(cards), 204800);
  std::vector<v1alpha::Card> negative = plainNode(2);
  link(negative, 0, 1, "nvlink", -5);
  EXPECT_EQ(scoreOfTwo(negative), 0);
}

TEST(PairScores, FlatMeansThatEveryPairIsAlike) {
  EXPECT_TRUE(scoresOf(plainNode(8)).flat());
  EXPECT_TRUE(scoresOf(dgx2()).flat());
  EXPECT_FALSE(scoresOf(dgx1Volta()).flat());
  EXPECT_TRUE(PairScores(0).flat());
  EXPECT_TRUE(PairScores(1).flat());
}

}  // namespace
}  // namespace egpu::scheduler::topology::testing
