// A claim's priority, and the order of pending claims.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/reconcile/priority/preempting.h"

namespace egpu::reconcile {
namespace {

using support::World;

TEST_F(PreemptionTest, AnUnknownPriorityClassIsReportedAndNothingIsLost) {
  claim("a", "share", "nowhere");
  EXPECT_EQ(world.reason("a", "Accepted"), "PriorityClassNotFound");
  EXPECT_EQ(world.message("a"), "spec.priorityClassName: there is no PriorityClass nowhere");
  priorityClass("nowhere", 7);
  settle();
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_EQ(world.claim("a").status.priority, 7);
  World::mustOk(world.client.remove<core::PriorityClass>({"", "nowhere"}));
  settle();
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_EQ(world.claim("a").status.priority, 7);
  claim("b", "share", "system-node-critical");
  EXPECT_EQ(world.reason("b", "Accepted"), "PriorityClassNotFound");
}

TEST_F(PreemptionTest, WithoutOneItIsThatOfItsPodsElseTheDefault) {
  claim("a", "spare-late");
  claim("b", "share", "high");
  pod("low", "a");
  ASSERT_EQ(phase("a"), "Bound");
  claim("late", "late");
  auto waiting = World::podOf("first", {"late"});
  waiting.priority = 300;
  (void)World::must(world.client.create(waiting));
  settle();
  EXPECT_EQ(world.reason("late"), "Preempting");
  EXPECT_EQ(world.claim("late").status.priority, 300);
  EXPECT_FALSE(podIsThere("low"));
  ends("low", "a");
  driver->run(std::chrono::seconds(5));
  EXPECT_EQ(world.gpu(deviceOf("late")).spec.nodeName, "n1");
  priorityClass("usual", 40, true, true);
  settle();
  claim("c", "share");
  EXPECT_EQ(world.claim("c").status.priority, 40);
}

TEST_F(PreemptionTest, APodOutsideKubeSystemCountsForNoMoreThanUsersMayHave) {
  claim("late", "late");
  auto waiting = World::podOf("first", {"late"});
  waiting.priority = 2'000'001'000;
  (void)World::must(world.client.create(waiting));
  driver->run(std::chrono::seconds(10));  // until the claim reports that the pod is not placed
  EXPECT_EQ(world.claim("late").status.priority, 1'000'000'000);
}

TEST_F(PreemptionTest, ThoseWhoWaitAreTriedByPriorityThenByAge) {
  claim("a", "share", {}, {{"gpu", "2"}});
  claim("first", "share", {}, {{"gpu", "2"}});
  claim("second", "share", "middle", {{"gpu", "2"}});
  claim("third", "share", "high", {{"gpu", "2"}});
  claim("fourth", "share", "high", {{"gpu", "2"}});
  std::string order;
  for (std::string holder = "a"; order.size() < 24;) {
    world.removeClaim(holder);
    driver->run();
    for (const std::string each : {"first", "second", "third", "fourth"})
      if (world.client.get<cache::Claim>({"default", each}).ok() && phase(each) == "Bound") holder = each;
    order += holder + " ";
    if (holder == "first") break;
  }
  EXPECT_EQ(order, "third fourth second first ");
}

TEST_F(PreemptionTest, ANodeIsReservedForALargeOneThatHasWaitedForLong) {
  claim("a", "share");
  claim("b", "share");
  claim("large", "share", {}, {{"gpu", "2"}});
  world.removeClaim("a");
  driver->run();
  claim("c", "share");
  EXPECT_EQ(phase("c"), "Bound") << "the first ten minutes others may go past";
  world.clock.advance(std::chrono::seconds(601));
  world.removeClaim("b");
  driver->run();
  claim("d", "share");
  EXPECT_EQ(phase("d"), "Pending");
  EXPECT_NE(world.message("d").find("capacity reserved for other claims: node n1 (claim default/large)"),
            std::string::npos)
      << world.message("d");
  world.removeClaim("c");
  driver->run();
  EXPECT_EQ(phase("large"), "Bound");
  EXPECT_EQ(phase("d"), "Pending");
  world.removeClaim("large");
  driver->run();
  EXPECT_EQ(phase("d"), "Bound");
}

}  // namespace
}  // namespace egpu::reconcile
