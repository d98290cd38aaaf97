// A plugin that hangs, and claims of other plugins.
#include "controller/agent/prepare/call_limiter.h"

#include <atomic>
#include <semaphore>
#include <thread>

#include "controller/agent/dra/claim_queue.h"
#include "tests/agent/prepare/fixture.h"

namespace egpu::agent {
namespace {

using base::Code;

TEST(CallLimiter, AreThoseOfEachPluginByItself) {
  CallLimiter limiter(2);
  const auto first = limiter.take("a");
  {
    const auto second = limiter.take("a");
    EXPECT_TRUE(first.ok() && second.ok());
    const auto third = limiter.take("a");
    ASSERT_FALSE(third.ok());
    EXPECT_EQ(third.status().code(), Code::unavailable);
    EXPECT_NE(third.status().message().find("provisioner a has not answered 2 calls"), std::string::npos);
    EXPECT_TRUE(limiter.take("b").ok());
  }
  EXPECT_TRUE(limiter.take("a").ok()) << "one has ended";
}

class CallLimiterTest : public PrepareTest {
 protected:
  static constexpr const char* kOther = "other.example.com";
  CallLimiterTest() {
    world.registry.add(otherOfController);
    registry.add(other);
    world.addClass("other", "Delete", "Immediate", {}, kOther);
    options.maxCalls = 2;
  }
  ~CallLimiterTest() override {
    hangs = false;
    letGo.release(100);
  }
  ClaimRef claimedOfOther(const std::string& name) {
    world.addClaim(name, "other", {{"gpu-core", "10"}, {"gpu-memory", "1"}});
    world.addPod(name, {name});
    driver->settle();
    world.schedule(name);
    return {"default", name, world.resourceClaim(name)->metadata.uid};
  }
  /// Hangs in these calls from now on.
  void hang(const std::string& where) {
    hangs = true;
    plugin.around = [this, where](const std::string& call, bool after) {
      if (after || !hangs || call != where) return;
      entered.release();
      letGo.acquire();
    };
  }

  support::FakeProvisioner otherOfController{kOther};
  NodePlugin other{kOther};
  std::atomic<bool> hangs{false};
  std::counting_semaphore<> entered{0}, letGo{0};
};

TEST_F(CallLimiterTest, APluginThatHangsHasItsCallsAndNoMore) {
  std::vector<ClaimRef> claims;
  for (int i = 0; i < 3; ++i) claims.push_back(claimed("c" + std::to_string(i)));
  const auto others = claimedOfOther("other");
  for (const std::string where : {"stage", "mount"}) {
    SCOPED_TRACE(where);
    ClaimPreparer bounded(client, registry, events, folder, options);
    hang(where);
    std::atomic<int> prepared{0};
    {
      std::jthread first([&] { prepared += bounded.prepare(claims[0], {}).ok() ? 1 : 0; });
      std::jthread second([&] { prepared += bounded.prepare(claims[1], {}).ok() ? 1 : 0; });
      entered.acquire();
      entered.acquire();
      EXPECT_EQ(bounded.prepare(claims[2], {}).status().code(), Code::unavailable);
      EXPECT_TRUE(hasEvent("c2", "has not answered 2 calls of this node"));
      EXPECT_TRUE(bounded.prepare(others, {}).ok());
      EXPECT_TRUE(bounded.unprepare(others, {}).ok());
      EXPECT_EQ(bounded.unprepare(claims[2], {}).code(), Code::unavailable) << "its part is there: it may be staged";
      hangs = false;
      letGo.release(2);
    }
    EXPECT_EQ(prepared, 2);
    EXPECT_TRUE(bounded.prepare(claims[2], {}).ok());
    for (const auto& claim : claims) EXPECT_TRUE(bounded.unprepare(claim, {}).ok());
    EXPECT_TRUE(files().empty());
    EXPECT_EQ(plugin.staged(), 0U);
  }
}

/// As many claims as workers, all of the plugin that hangs; then a claim of another plugin.
TEST_F(CallLimiterTest, WorkersAreLeftForTheClaimsOfOthers) {
  constexpr int kWorkers = 4;
  std::vector<ClaimRef> claims;
  for (int i = 0; i < kWorkers; ++i) claims.push_back(claimed("c" + std::to_string(i)));
  const auto others = claimedOfOther("other");
  ClaimPreparer bounded(client, registry, events, folder, options);
  hang("stage");
  std::atomic<int> prepared{0}, refused{0};
  std::counting_semaphore<> answered{0};  // not blocked by the hanging calls: two refusals and the other plugin's claim
  {
    dra::ClaimQueue queue(kWorkers);
    for (const auto& claim : claims)
      queue.add(claim.uid, [&, claim] {
        const bool ok = bounded.prepare(claim, {}).ok();
        ++(ok ? prepared : refused);
        if (!ok) answered.release();
      });
    queue.add(others.uid, [&] {
      EXPECT_TRUE(bounded.prepare(others, {}).ok());
      answered.release();
    });
    for (int i = 0; i < 3; ++i) answered.acquire();
    hangs = false;
    letGo.release(2);
  }
  EXPECT_EQ(prepared, 2);
  EXPECT_EQ(refused, 2) << "they are asked for again";
}

}  // namespace
}  // namespace egpu::agent
