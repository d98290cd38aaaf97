// Isolation modes: one mode per card, the choice of "auto", and programs that evade the limiter (B1).
#include <gmock/gmock.h>

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using ::testing::HasSubstr;

class IsolationTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    world.addClass("limited", "Delete", "Immediate", {{"isolation", "limiter"}});
    world.addClass("auto", "Delete", "Immediate", {{"isolation", "auto"}});
  }
  std::string cardOf(const std::string& claim) { return world.gpu(deviceOf(claim)).spec.cards.at(0).name; }
  std::string modeOf(const std::string& card) { return world.gpu(card).spec.mode; }
  void limiterOn(const std::string& card, const std::string& text) {
    world.json<cache::Gpu>({"", card}, R"({"spec":{"card":{"attributes":{"limiter":")" + text + R"("}}}})");
  }
  /// Reports a bypass as the agent does.
  void bypass(const std::string& claim, const std::string& pod) {
    const auto device = world.gpu(deviceOf(claim));
    const std::string report =
        pod.empty() ? "null" : R"({"pod":")" + world.pod(pod).metadata.uid + R"(","message":"process 7 (x) evades"})";
    world.json<cache::Gpu>({"", device.spec.cards.at(0).name},
                           R"({"status":{"bypassed":{")" + device.metadata.uid + R"(":)" + report + "}}}", "status");
  }
};

TEST_F(IsolationTest, SharesOfOneCardHaveOneMode) {
  world.addClaim("plain", "share", {{"gpu-core", "10"}});
  settle();
  world.addClaim("limited", "limited", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(modeOf(cardOf("plain")), "none");
  EXPECT_EQ(modeOf(cardOf("limited")), "limiter");
  EXPECT_NE(cardOf("plain"), cardOf("limited"));
  EXPECT_EQ(world.gpu(deviceOf("limited")).spec.parameters.at("isolation"), "limiter");
  world.addClaim("more", "limited", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(cardOf("more"), cardOf("limited"));
  world.addClaim("mps", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(cardOf("mps"), cardOf("plain"));
}

TEST_F(IsolationTest, AClaimThatFindsNoCardOfItsModeReportsIt) {
  world.addClaim("one", "share", {{"gpu-core", "10"}});
  settle();
  world.addClaim("two", "share", {{"gpu-core", "100"}});
  settle();
  ASSERT_NE(cardOf("one"), cardOf("two"));
  world.addClaim("limited", "limited", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("limited"), "NoFit");
  EXPECT_THAT(world.message("limited"), HasSubstr("2 in use with isolation none"));
  world.removeClaim("one");
  settle();
  EXPECT_EQ(world.reason("limited"), "Bound") << "its card is empty, and any mode may follow";
}

TEST_F(IsolationTest, TheModeGoesWithTheLastEntry) {
  world.addClaim("a", "limited", {{"gpu-core", "10"}});
  world.addClaim("b", "limited", {{"gpu-core", "10"}});
  settle();
  const auto card = cardOf("a");
  ASSERT_EQ(cardOf("b"), card);
  world.removeClaim("a");
  settle();
  EXPECT_EQ(modeOf(card), "limiter");
  world.removeClaim("b");
  settle();
  EXPECT_EQ(modeOf(card), "");
  EXPECT_TRUE(world.gpu(card).spec.allocations.empty());
}

TEST_F(IsolationTest, WholeCardsHaveNoMode) {
  world.addClaim("whole", "limited", {{"gpu", "1"}});
  settle();
  EXPECT_EQ(modeOf(cardOf("whole")), "");
}

TEST_F(IsolationTest, ANewLeaderKnowsTheModes) {
  world.addClaim("a", "limited", {{"gpu-core", "10"}});
  settle();
  start();
  driver->run();
  world.addClaim("b", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_NE(cardOf("a"), cardOf("b"));
}

TEST_F(IsolationTest, AutoIsTheLimiterWhereANodeHasIt) {
  limiterOn("gpu-n1-0", "not installed");
  limiterOn("gpu-n1-1", "available");
  settle();
  world.addClaim("limited", "limited", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(cardOf("limited"), "gpu-n1-1");
  world.addClaim("auto", "auto", {{"gpu-core", "95"}});
  settle();
  EXPECT_EQ(cardOf("auto"), "gpu-n1-0");
  EXPECT_EQ(world.gpu(deviceOf("auto")).spec.parameters.at("isolation"), "none");
  EXPECT_EQ(modeOf("gpu-n1-0"), "none");
  world.addClaim("small", "auto", {{"gpu-core", "20"}});
  settle();
  EXPECT_EQ(cardOf("small"), "gpu-n1-1");
  EXPECT_EQ(world.gpu(deviceOf("small")).spec.parameters.at("isolation"), "limiter");
  world.addClaim("none", "limited", {{"gpu-core", "90"}});
  settle();
  EXPECT_THAT(world.message("none"), HasSubstr("on nodes without the limiter"));
}

TEST_F(IsolationTest, B1_ABypassIsACondition) {
  world.addClaim("a", "limited", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  world.schedule("p");
  bypass("a", "p");
  settle();
  EXPECT_EQ(world.reason("a", "IsolationBypassed"), "IsolationBypassed");
  EXPECT_EQ(world.message("a", "IsolationBypassed"), "process 7 (x) evades");
  EXPECT_FALSE(world.pod("p").metadata.deleting()) << "it is reported only";
  bypass("a", "");
  settle();
  EXPECT_EQ(world.reason("a", "IsolationBypassed"), "Ended");
}

TEST_F(IsolationTest, B1_ThePodIsEvictedIfTheClassAsksForIt) {
  world.addClass("strict", "Delete", "Immediate", {{"isolation", "limiter"}, {"onBypass", "evict"}});
  world.addClaim("a", "strict", {{"gpu-core", "10"}});
  for (const char* pod : {"p", "q"}) world.addPod(pod, {"a"});
  settle();
  for (const char* pod : {"p", "q"}) world.schedule(pod);
  bypass("a", "p");
  settle();
  const auto evicted = world.client.get<core::Pod>({"default", "p"});
  EXPECT_TRUE(!evicted.ok() || evicted->metadata.deleting());
  EXPECT_FALSE(world.pod("q").metadata.deleting()) << "another pod of the claim";
  EXPECT_EQ(countEvents("p Warning IsolationBypassed evicted because of onBypass: evict"), 1);
  EXPECT_EQ(world.claim("a").status.phase, "Bound") << "the claim keeps its device";
}

}  // namespace
}  // namespace egpu::reconcile
