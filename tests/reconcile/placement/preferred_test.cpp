// (C6) with a plugin that chooses among the best candidates.
#include <gmock/gmock.h>

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using plugin::PreferReply;
using plugin::ReplyCode;
using plugin::Wish;
using ::testing::HasSubstr;

PreferReply backwards(const Wish& wish) {
  PreferReply reply;
  for (auto i = static_cast<uint32_t>(wish.candidates.size()); i > 0; --i) reply.order.push_back(i - 1);
  return reply;
}

/// Returns a preference that vetoes these nodes and prefers none.
std::function<PreferReply(const Wish&)> vetoes(std::vector<std::string> nodes) {
  return [nodes = std::move(nodes)](const Wish& wish) {
    PreferReply reply;
    for (uint32_t i = 0; i < wish.candidates.size(); ++i)
      if (std::count(nodes.begin(), nodes.end(), wish.candidates[i].node) > 0) reply.vetoes.push_back({i, "too warm"});
    return reply;
  };
}

class PreferredTest : public ReconcileTest {
 protected:
  /// Adds `n` nodes with one card each beside the fixture's n1.
  void addNodes(int n) {
    for (int i = 2; i < 2 + n; ++i) {
      const auto name = "n" + std::to_string(i);
      world.addNode(name);
      world.addCard(name, 0);
    }
    settle();
  }
  std::string nodeOf(const std::string& claim) { return world.gpu(deviceOf(claim)).spec.nodeName; }
};

TEST_F(PreferredTest, C6_ThePluginsFavouriteIsTaken) {
  addNodes(2);
  world.plugin.preferBy(backwards);
  world.addClaim("a", "share", {{"gpu-core", "50"}, {"gpu-memory", "4"}});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  ASSERT_EQ(world.plugin.wishes().size(), 1u);
  const auto wish = world.plugin.wishes().front();
  EXPECT_EQ(wish.claim, "default/a");
  ASSERT_EQ(wish.candidates.size(), 3u);
  EXPECT_EQ(nodeOf("a"), wish.candidates.back().node);
  EXPECT_NE(nodeOf("a"), wish.candidates.front().node);
  ASSERT_EQ(wish.candidates.front().cards.size(), 1u);
  EXPECT_EQ(wish.candidates.front().cards.front().core, 500);
  EXPECT_EQ(wish.candidates.front().cards.front().memory, 4 * support::kGi);
  EXPECT_EQ(wish.candidates.front().cards.front().cardMemory, 16 * support::kGi);
}

TEST_F(PreferredTest, C6_WhoHasNoSuchSlotIsNotAsked) {
  addNodes(1);
  world.addClaim("a", "share", {{"gpu-core", "50"}});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_TRUE(world.plugin.wishes().empty());
}

TEST_F(PreferredTest, C6_NoMoreThanSixteenPlacesAreShown) {
  addNodes(30);
  world.plugin.preferBy(backwards);
  world.addClaim("a", "share", {{"gpu-core", "50"}});
  settle();
  ASSERT_EQ(world.plugin.wishes().size(), 1u);
  EXPECT_EQ(world.plugin.wishes().front().candidates.size(), 16u);
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(PreferredTest, C6_AVetoedNodeIsPassedOver) {
  addNodes(1);
  world.plugin.preferBy(vetoes({"n1"}));
  world.addClaim("a", "share", {{"gpu-core", "50"}});
  world.addClaim("b", "share", {{"gpu-core", "50"}});
  settle();
  EXPECT_EQ(nodeOf("a"), "n2");
  EXPECT_EQ(nodeOf("b"), "n2");
  world.addClaim("c", "share", {{"gpu-core", "50"}});  // n2 is full
  settle();
  EXPECT_NE(world.claim("c").status.phase, "Bound");
  EXPECT_THAT(world.message("c"), HasSubstr("too warm"));
}

TEST_F(PreferredTest, C6_WhereAllAreVetoedTheClaimReportsWhyAndIsTriedAgain) {
  world.plugin.preferBy(vetoes({"n1"}));
  world.addClaim("a", "share", {{"gpu-core", "50"}});
  settle();
  EXPECT_NE(world.claim("a").status.phase, "Bound");
  EXPECT_THAT(world.message("a"), HasSubstr("node n1 is not tried for a while"));
  EXPECT_THAT(world.message("a"), HasSubstr("too warm"));
  const auto asked = world.plugin.wishes().size();
  driver->run(std::chrono::seconds(100));
  EXPECT_EQ(world.plugin.wishes().size(), asked) << "asked again about a node that it vetoed just now";
  world.plugin.preferBy(vetoes({}));
  driver->run(std::chrono::seconds(200));
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(PreferredTest, C6_BehindVetoedCandidatesOthersAreAsked) {
  addNodes(19);
  std::set<std::string> first;
  world.plugin.preferBy([&first](const Wish& wish) {
    if (first.empty())
      for (const auto& candidate : wish.candidates) first.insert(candidate.node);
    return vetoes({first.begin(), first.end()})(wish);
  });
  world.addClaim("a", "share", {{"gpu-core", "50"}});
  driver->run(std::chrono::seconds(10));
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(first.count(nodeOf("a")), 0u);
  EXPECT_EQ(world.plugin.wishes().size(), 2u);
}

TEST_F(PreferredTest, C6_WithoutAGoodAnswerOurOrderStands) {
  addNodes(2);
  world.addClaim("ours", "share", {{"gpu-core", "10"}});
  settle();
  const auto ours = nodeOf("ours");
  world.plugin.preferBy([](const Wish&) { return PreferReply{{ReplyCode::timeout, "no answer"}, {}, {}}; });
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(nodeOf("a"), ours);
  world.addClaim("b", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(nodeOf("b"), ours);
  EXPECT_EQ(world.plugin.wishes().size(), 1u) << "asked again at once after it failed";
  world.clock.advance(std::chrono::seconds(11));
  world.addClaim("c", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.plugin.wishes().size(), 2u);
}

TEST_F(PreferredTest, C6_AskingTakesNothing) {
  world.plugin.preferBy(backwards);
  world.addClaim("a", "share", {{"gpu", "2"}});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.violation(), "");
  world.removeClaim("a");
  settle();
  world.addClaim("b", "share", {{"gpu", "2"}});
  settle();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
  EXPECT_EQ(world.garbage(), "");
}

}  // namespace
}  // namespace egpu::reconcile
