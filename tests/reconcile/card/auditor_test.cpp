// The ledger of a card, and its printed columns.
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using AuditorTest = ReconcileTest;

TEST_F(AuditorTest, UnhealthyCardsAreQuarantinedOneByOne) {
  world.json<cache::Gpu>({"", "gpu-n1-0"},
                         R"({"status":{"conditions":[{"type":"Healthy","status":"False","reason":"Xid79"}]}})",
                         "status");
  settle();
  EXPECT_EQ(driver->cluster.allocationMap().quarantineReason("gpu-n1-0"), "Xid79");
  world.addClaim("a", "share", {{"gpu", "1"}});
  world.addClaim("b", "share", {{"gpu", "1"}});
  settle();
  EXPECT_EQ((world.claim("a").status.phase == "Bound") + (world.claim("b").status.phase == "Bound"), 1);
  world.json<cache::Gpu>({"", "gpu-n1-0"}, R"({"status":{"conditions":[{"type":"Healthy","status":"True"}]}})",
                         "status");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
}

TEST_F(AuditorTest, AMissingEntryOfABoundDeviceIsPutBack) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto device = world.gpu(deviceOf("a"));
  const auto card = device.spec.cards[0].name;
  world.json<cache::Gpu>({"", card}, R"({"spec":{"allocations":{")" + device.metadata.uid + R"(":null}}})");
  settle();
  EXPECT_EQ(world.gpu(card).spec.allocations.count(device.metadata.uid), 1u);
  EXPECT_EQ(driver->reconciler.drift().at("entryMissing"), 1);
  EXPECT_EQ(driver->cluster.allocationMap().quarantineReason(card), "");
}

TEST_F(AuditorTest, DriftThatWasMendedIsReportedAnewWhenItComesAgain) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto device = world.gpu(deviceOf("a"));
  const auto card = device.spec.cards[0].name;
  for (int times = 1; times <= 2; ++times) {
    world.json<cache::Gpu>({"", card}, R"({"spec":{"allocations":{")" + device.metadata.uid + R"(":{"core":90}}}})");
    settle();
    EXPECT_EQ(world.gpu(card).spec.allocations.at(device.metadata.uid).core, 100);
    EXPECT_EQ(driver->reconciler.drift().at("amountDiffers"), times);
  }
}

TEST_F(AuditorTest, TheSummaryIsWrittenOnceForABurst) {
  start(std::chrono::milliseconds(1000));
  driver->run();
  for (int i = 0; i < 5; ++i)
    world.addClaim("c" + std::to_string(i), "share", {{"gpu-core", "7"}, {"gpu-memory", "1"}});
  settle();
  const auto before = writes();
  driver->run();
  EXPECT_LE(writes() - before, 2u);
  const auto first = world.gpu("gpu-n1-0"), second = world.gpu("gpu-n1-1");
  ASSERT_TRUE(first.status.allocated && second.status.allocated);
  EXPECT_EQ(first.status.allocated->claims + second.status.allocated->claims, 5);
  EXPECT_EQ(first.status.allocated->core + second.status.allocated->core, 350);
}

TEST_F(AuditorTest, ACardThatIsNotOfferedReportsWhy) {
  start(std::chrono::milliseconds(1000));
  const auto healthy = [&](const std::string& status) {
    world.json<cache::Gpu>(
        {"", "gpu-n1-0"},
        R"({"status":{"conditions":[{"type":"Healthy","status":")" + status + R"(","reason":"Xid79"}]}})", "status");
    driver->run();
  };
  healthy("False");
  EXPECT_EQ(world.gpu("gpu-n1-0").status.phase, "Unhealthy");
  EXPECT_EQ(world.gpu("gpu-n1-0").status.reason, "Xid79");
  healthy("True");
  EXPECT_EQ(world.gpu("gpu-n1-0").status.phase, "Available");
  EXPECT_EQ(world.gpu("gpu-n1-0").status.reason, "");
}

TEST_F(AuditorTest, WhatKubectlShowsOfCardsAndDevicesIsRightAfterBindAndRelease) {
  start(std::chrono::milliseconds(1000));
  world.addClaim("a", "share", {{"gpu-core", "10"}, {"gpu-memory", "4"}});
  world.addClaim("b", "share", {{"gpu-core", "25"}, {"gpu-memory", "2"}}, "gpu-n1-0");
  driver->run();
  world.removeClaim("a");
  driver->run();
  auto card = world.gpu("gpu-n1-0");
  ASSERT_TRUE(card.status.allocated);
  EXPECT_EQ(card.status.allocated->coreText, "25%");
  EXPECT_EQ(card.status.allocated->memoryText, "2Gi/16Gi");
  EXPECT_EQ(card.status.allocated->claims, 1);
  const auto device = world.gpu(deviceOf("b"));
  ASSERT_TRUE(device.status.allocated);
  EXPECT_EQ(device.status.allocated->coreText, "25%");
  EXPECT_EQ(device.status.allocated->memoryText, "2Gi");
  EXPECT_EQ(device.status.allocated->claims, 1);
  world.removeClaim("b");
  driver->run();
  card = world.gpu("gpu-n1-0");
  EXPECT_EQ(card.status.allocated->coreText, "0%");
  EXPECT_EQ(card.status.allocated->claims, 0);
}

TEST_F(AuditorTest, ACardsColumnsWaitForClaimsButNotForever) {
  start(std::chrono::milliseconds(3000));  // ten is not a multiple of it
  using std::chrono::milliseconds;
  const auto shown = [this] {
    const auto card = world.gpu("gpu-n1-0");
    return card.status.allocated ? card.status.allocated->coreText : "nothing";
  };
  const auto pass = [this](milliseconds time) {
    const auto end = world.clock.now() + time;
    driver->run(time);
    world.clock.advance(std::chrono::duration_cast<milliseconds>(end - world.clock.now()));
  };
  world.addClaim("a", "share", {{"gpu-core", "10"}}, "gpu-n1-0");
  pass(milliseconds(900));
  // Just before each second ends, another claim is bound on the other card.
  for (int n = 1; n <= 9; ++n) {
    world.addClaim("b" + std::to_string(n), "share", {{"gpu-core", "5"}}, "gpu-n1-1");
    pass(milliseconds(1000));
    EXPECT_EQ(shown(), "nothing") << "after " << n << " s";
  }
  world.addClaim("c", "share", {{"gpu-core", "5"}}, "gpu-n1-1");
  pass(milliseconds(200));
  EXPECT_EQ(shown(), "10%") << "ten seconds are enough";
  // No other claim is bound: three seconds.
  world.addClaim("d", "share", {{"gpu-core", "25"}}, "gpu-n1-0");
  pass(milliseconds(2900));
  EXPECT_EQ(shown(), "10%");
  pass(milliseconds(200));
  EXPECT_EQ(shown(), "35%");
}

}  // namespace
}  // namespace egpu::reconcile
