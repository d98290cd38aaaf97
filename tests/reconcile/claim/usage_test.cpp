// The reported usage of cards is copied to their claims, rarely, and wakes no other claim.
#include "controller/base/timestamp.h"
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using std::chrono::seconds;

class UsageTest : public ReconcileTest {
 protected:
  /// Binds a claim of a quarter and 4 GiB of the first card.
  void bound(const std::string& claim = "a", const std::string& gpu = "gpu-n1-0") {
    world.addClaim(claim, "share", {{"gpu-core", "25"}, {"gpu-memory", "4"}}, gpu);
    settle();
    ASSERT_EQ(world.claim(claim).status.phase, "Bound");
  }
  std::string uidOf(const std::string& claim) { return world.gpu(deviceOf(claim)).metadata.uid; }
  /// Writes the usage as the card's agent does; `devices` as JSON.
  void uses(const std::string& card, const std::string& devices, int64_t memory = 5 * kGi, int smPercent = 50) {
    world.json<cache::Gpu>({"", card}, R"({"status":{"usage":null}})", "status");
    world.json<cache::Gpu>({"", card},
                           R"({"status":{"usage":{"memory":)" + std::to_string(memory) + R"(,"smPercent":)" +
                               std::to_string(smPercent) + R"(,"devices":{)" + devices + "}}}}",
                           "status");
    settle();
  }
  void usesOne(const std::string& claim, int64_t memory, int smPercent, const std::string& card = "gpu-n1-0") {
    uses(card, "\"" + uidOf(claim) + R"(":{"memory":)" + std::to_string(memory) + R"(,"smPercent":)" +
                   std::to_string(smPercent) + "}");
  }
  std::string text(const std::string& claim = "a") {
    const auto usage = world.claim(claim).status.usage;
    return usage ? usage->text : "nothing";
  }
};

TEST_F(UsageTest, WhatTheCardReportsStandsOnTheClaim) {
  bound();
  EXPECT_EQ(text(), "nothing");
  usesOne("a", 3 * kGi + 100 * (1 << 20), 35);
  const auto usage = world.claim("a").status.usage;
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->core, "35%");
  EXPECT_EQ(usage->memory, "3.1Gi");
  EXPECT_EQ(usage->text, "35%, 3.1Gi");
  EXPECT_EQ(usage->time, base::rfc3339(world.clock.wall()));
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.claim("a").status.capacity.at("memory"), "4Gi");
}

TEST_F(UsageTest, OnceAMinuteAndOnlyIfItMovedNoticeably) {
  bound();
  usesOne("a", 2 * kGi, 20);
  EXPECT_EQ(text(), "20%, 2Gi");
  usesOne("a", 3 * kGi, 20);
  EXPECT_EQ(text(), "20%, 2Gi") << "a minute has not passed";
  driver->run();
  EXPECT_EQ(text(), "20%, 3Gi") << "then it is written by itself";
  world.clock.advance(seconds(60));
  usesOne("a", 3 * kGi + 100 * (1 << 20), 24);
  driver->run();
  EXPECT_EQ(text(), "20%, 3Gi") << "less than a twentieth";
  usesOne("a", 3 * kGi, 25);
  driver->run();
  EXPECT_EQ(text(), "25%, 3Gi");
  world.clock.advance(seconds(60));
  uses("gpu-n1-0", "");
  EXPECT_EQ(text(), "0%, 0") << "it uses nothing any more";
}

TEST_F(UsageTest, NothingThatWasNeverUsedIsReported) {
  bound();
  const auto before = world.claim("a").metadata.resourceVersion;
  uses("gpu-n1-0", "");
  driver->run();
  EXPECT_EQ(world.claim("a").metadata.resourceVersion, before);
}

TEST_F(UsageTest, UseOfSeveralCardsIsASum) {
  world.addClaim("both", "share", {{"gpu", "2"}});
  settle();
  ASSERT_EQ(world.claim("both").status.phase, "Bound");
  usesOne("both", 2 * kGi, 30, "gpu-n1-0");
  EXPECT_EQ(text("both"), "nothing") << "of the other card nothing is known";
  usesOne("both", kGi, 90, "gpu-n1-1");
  EXPECT_EQ(text("both"), "120%, 3Gi");
  usesOne("both", -1, 90, "gpu-n1-1");
  driver->run();
  EXPECT_EQ(text("both"), "120%");
}

TEST_F(UsageTest, WhatIsNoLongerKnownIsTakenAway) {
  bound();
  usesOne("a", 2 * kGi, 20);
  world.json<cache::Gpu>({"", "gpu-n1-0"}, R"({"status":{"usage":null}})", "status");
  driver->run();
  EXPECT_EQ(text(), "nothing");
}

TEST_F(UsageTest, AClaimThatLosesItsDeviceUsesNothing) {
  bound();
  usesOne("a", 2 * kGi, 20);
  ASSERT_EQ(text(), "20%, 2Gi");
  world.addPod("p", {"a"});  // otherwise it would be bound again
  settle();
  world.schedule("p");
  world.removeNode("n1");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Lost");
  EXPECT_EQ(text(), "nothing");
}

TEST_F(UsageTest, ACardsUseWakesNobodyButTheClaimsThatUseOtherwise) {
  bound("a");
  bound("b");
  world.addClaim("waits", "share", {{"gpu", "2"}});
  start(std::chrono::milliseconds(1000));  // with the cards' summaries
  driver->run();
  world.clock.advance(seconds(60));
  const auto reads = [&](const std::string& devices) {
    uses("gpu-n1-0", devices);  // changes the card twice
    const auto steps = driver->steps;
    const auto before = writes();
    world.json<cache::Gpu>({"", "gpu-n1-0"}, R"({"status":{"usage":{"memory":)" + std::to_string(6 * kGi) + "}}}",
                           "status");
    settle();
    EXPECT_EQ(writes() - before, 1u) << "but for the agent's own";
    return driver->steps - steps;
  };
  EXPECT_EQ(reads(""), 0) << "no step at all";
  const auto a = "\"" + uidOf("a") + R"(":{"memory":1073741824,"smPercent":10})";
  EXPECT_EQ(reads(a), 0) << "its share is as it was";
  // Each of these is one step and one write of the claim, and the write's event causes nothing.
  const auto steps = driver->steps;
  const auto before = writes();
  world.clock.advance(seconds(60));
  world.json<cache::Gpu>(
      {"", "gpu-n1-0"},
      R"({"status":{"usage":{"devices":{")" + uidOf("b") + R"(":{"memory":2147483648,"smPercent":20}}}}})", "status");
  settle();
  EXPECT_EQ(driver->steps - steps, 1);
  EXPECT_EQ(writes() - before, 2u);
  EXPECT_EQ(text("b"), "20%, 2Gi");
}

TEST_F(UsageTest, ANewControllerReportsWhatCardsReportAlready) {
  bound();
  driver.reset();
  world.json<cache::Gpu>({"", "gpu-n1-0"},
                         R"({"status":{"usage":{"memory":5,"smPercent":1,"devices":{")" + uidOf("a") +
                             R"(":{"memory":2147483648,"smPercent":20}}}}})",
                         "status");
  start();
  EXPECT_EQ(text(), "20%, 2Gi");
  // The new controller continues the previous one's minute.
  start();
  usesOne("a", 4 * kGi, 20);
  EXPECT_EQ(text(), "20%, 2Gi");
  driver->run();
  EXPECT_EQ(text(), "20%, 4Gi");
}

TEST_F(UsageTest, AClaimThatIsBeingDeletedReportsWhatItsPodUses) {
  bound();
  world.addPod("p", {"a"});
  settle();
  world.schedule("p");
  usesOne("a", 2 * kGi, 20);
  world.removeClaim("a");
  driver->run();
  world.clock.advance(seconds(60));
  usesOne("a", 4 * kGi, 20);
  EXPECT_EQ(text(), "20%, 4Gi");
  world.removePod("p");
}

}  // namespace
}  // namespace egpu::reconcile
