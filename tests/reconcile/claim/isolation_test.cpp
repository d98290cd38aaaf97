// Isolation modes: one mode per card, the choice of "auto", and programs that evade the limiter (B1).
#include <gmock/gmock.h>

#include "tests/reconcile/fixture.h"
#include "tests/support/forwarding_transport.h"

namespace egpu::reconcile {
namespace {

using ::testing::HasSubstr;

/// Calls a function before each request.
class OtherRemoval final : public support::ForwardingTransport {
 public:
  explicit OtherRemoval(kube::Transport& next) : ForwardingTransport(next) {}
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    if (const auto call = before) call(request);
    return ForwardingTransport::perform(request, std::move(stop));
  }
  std::function<void(const kube::HttpRequest&)> before;
};

class IsolationTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    world.addClass("limited", "Delete", "Immediate", {{"isolation", "limiter"}});
    world.addClass("auto", "Delete", "Immediate", {{"isolation", "auto"}});
  }
  std::string cardOf(const std::string& claim) { return world.gpu(deviceOf(claim)).spec.cards.at(0).name; }
  std::string modeOf(const std::string& card) { return world.gpu(card).spec.mode; }
  void attribute(const std::string& name, const std::string& card, const std::string& text) {
    world.json<cache::Gpu>({"", card}, R"({"spec":{"card":{"attributes":{")" + name + R"(":")" + text + R"("}}}})");
  }
  void limiterOn(const std::string& card, const std::string& text) { attribute("limiter", card, text); }
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

/// Each of two removals at the same time sees the entry of the other.
TEST_F(IsolationTest, TheModeGoesWithTheLastOfTwoEntriesThatAreRemovedTogether) {
  OtherRemoval line(*world.transport);
  startOver(line);
  world.addClaim("a", "limited", {{"gpu-core", "10"}});
  world.addClaim("b", "limited", {{"gpu-core", "10"}});
  settle();
  const auto card = cardOf("a");
  ASSERT_EQ(cardOf("b"), card);
  const auto removalOf = [](const std::string& uid) { return R"({"spec":{"allocations":{")" + uid + R"(":null}}})"; };
  const auto first = removalOf(world.gpu(deviceOf("a")).metadata.uid);
  const auto second = removalOf(world.gpu(deviceOf("b")).metadata.uid);
  line.before = [&](const kube::HttpRequest& request) {
    if (request.body != first && request.body != second) return;
    line.before = nullptr;
    world.json<cache::Gpu>({"", card}, request.body == first ? second : first);
  };
  world.removeClaim("a");
  world.removeClaim("b");
  settle();
  EXPECT_FALSE(line.before) << "one entry was removed while the other existed";
  EXPECT_TRUE(world.gpu(card).spec.allocations.empty());
  EXPECT_EQ(modeOf(card), "");
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

TEST_F(IsolationTest, DriverIsOnlyOnCardsThatOfferIt) {
  world.addClass("driver", "Delete", "Immediate", {{"isolation", "driver"}});
  attribute("memoryLimits", "gpu-n1-0", "the driver is too old");
  settle();
  world.addClaim("a", "driver", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_THAT(world.message("a"), HasSubstr("2 without the driver's memory limits"));
  attribute("memoryLimits", "gpu-n1-1", "available");
  settle();
  EXPECT_EQ(cardOf("a"), "gpu-n1-1");
  EXPECT_EQ(modeOf("gpu-n1-1"), "driver");
  const auto parameters = world.gpu(deviceOf("a")).spec.parameters;
  EXPECT_EQ(parameters.count("compute"), 0u) << "the node has no limiter";
}

TEST_F(IsolationTest, AutoIsTheDriverWithTheLimiterForCompute) {
  for (const char* card : {"gpu-n1-0", "gpu-n1-1"}) {
    attribute("memoryLimits", card, "available");
    limiterOn(card, "available");
  }
  settle();
  world.addClaim("both", "auto", {{"gpu-core", "10"}});
  world.addClaim("memory", "auto", {{"gpu-memory", "1Gi"}});
  settle();
  EXPECT_EQ(world.gpu(deviceOf("both")).spec.parameters.at("isolation"), "driver");
  EXPECT_EQ(world.gpu(deviceOf("both")).spec.parameters.at("compute"), "limiter");
  EXPECT_EQ(world.gpu(deviceOf("memory")).spec.parameters.at("isolation"), "driver");
  EXPECT_EQ(world.gpu(deviceOf("memory")).spec.parameters.count("compute"), 0u) << "it requests no compute";
  EXPECT_EQ(modeOf(cardOf("both")), "driver");
}

TEST_F(IsolationTest, AutoKeepsTheLimiterOnACardWhoseSharesHaveIt) {
  limiterOn("gpu-n1-0", "available");
  settle();
  world.addClaim("before", "auto", {{"gpu-core", "10"}});
  settle();
  ASSERT_EQ(cardOf("before"), "gpu-n1-0");
  attribute("memoryLimits", "gpu-n1-0", "available");
  settle();
  world.addClaim("after", "auto", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(cardOf("after"), "gpu-n1-0");
  EXPECT_EQ(world.gpu(deviceOf("after")).spec.parameters.at("isolation"), "limiter");
  EXPECT_EQ(modeOf("gpu-n1-0"), "limiter");
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

TEST_F(IsolationTest, ALossOfAccessIsAConditionUntilTheAgentWithdrawsIt) {
  world.addClass("mps", "Delete", "Immediate", {{"isolation", "mps"}});
  for (const char* claim : {"a", "b"}) world.addClaim(claim, "mps", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  world.schedule("p");
  const auto device = world.gpu(deviceOf("a"));
  ASSERT_EQ(cardOf("a"), cardOf("b"));
  const auto report = [&](const std::string& loss) {
    world.json<cache::Gpu>({"", cardOf("a")},
                           R"({"status":{"accessLost":{")" + device.metadata.uid + R"(":)" + loss + "}}}", "status");
    settle();
  };
  report(R"({"reason":"MpsServerFault","message":"a fault: restart the pods","since":"2026-01-02T03:04:05Z"})");
  EXPECT_EQ(world.reason("a", "AccessLost"), "MpsServerFault");
  EXPECT_EQ(world.message("a", "AccessLost"), "a fault: restart the pods");
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.reason("b", "AccessLost"), "") << "its programs go on";
  report(R"({"reason":"MpsDaemonRestarted","message":"it was started again","since":"2026-01-02T03:04:05Z"})");
  EXPECT_EQ(world.reason("a", "AccessLost"), "MpsDaemonRestarted");
  report("null");
  EXPECT_EQ(world.reason("a", "AccessLost"), "Ended");
  EXPECT_EQ(world.message("a", "AccessLost"), "");
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
