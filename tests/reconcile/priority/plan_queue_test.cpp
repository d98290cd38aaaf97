// Turns of claims that wait for a search for victims.
#include "controller/reconcile/priority/plan_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace egpu::reconcile {
namespace {

using std::chrono::milliseconds;

class PlanQueueTest : public ::testing::Test {
 protected:
  void wait(const std::string& uid, int64_t priority = 0) {
    queue.wait({-priority, {"2026-01-01T00:00:00Z", uid}}, "claim/default/" + uid);
  }
  std::string next(milliseconds rest = milliseconds(0)) { return queue.next(rest).queueKey.value_or(""); }

  base::ManualClock clock;
  PlanQueue queue{clock, kDefaultTimeouts};
};

TEST_F(PlanQueueTest, TheHighestPriorityIsFirstThenTheOldest) {
  wait("b");
  wait("a");
  wait("high", 5);
  EXPECT_EQ(next(), "claim/default/high");
  EXPECT_TRUE(queue.isCurrent("claim/default/high"));
  EXPECT_EQ(next(), "") << "one at a time";
  EXPECT_TRUE(queue.done("high"));
  EXPECT_EQ(next(), "claim/default/a");
  EXPECT_TRUE(queue.done("a"));
  EXPECT_EQ(next(), "claim/default/b");
  EXPECT_FALSE(queue.done("b")) << "no other waits";
  EXPECT_FALSE(queue.next({}).again);
}

TEST_F(PlanQueueTest, NoSearchBeginsDuringARest) {
  wait("a");
  const auto rests = queue.next(milliseconds(40));
  EXPECT_FALSE(rests.queueKey);
  EXPECT_EQ(rests.again, milliseconds(40));
  EXPECT_FALSE(queue.isCurrent("claim/default/a"));
}

TEST_F(PlanQueueTest, AClaimThatDoesNotSearchLosesItsSlot) {
  wait("gone");
  wait("next");
  EXPECT_EQ(next(), "claim/default/gone");
  const auto held = queue.next({});
  EXPECT_FALSE(held.queueKey);
  EXPECT_EQ(held.again, kDefaultTimeouts.victimSearchSlotTimeout);
  clock.advance(kDefaultTimeouts.victimSearchSlotTimeout);
  EXPECT_EQ(next(), "claim/default/next");
  EXPECT_FALSE(queue.done("next")) << "the first waits no longer";
}

TEST_F(PlanQueueTest, AClaimWhoseSearchIsMadeOutOfOrderLeavesTheQueue) {
  wait("a");
  wait("b");
  EXPECT_TRUE(queue.done("a"));
  EXPECT_EQ(next(), "claim/default/b");
}

TEST_F(PlanQueueTest, AnotherPriorityIsAnotherPlace) {
  wait("a");
  wait("b");
  wait("b", 5);
  EXPECT_EQ(next(), "claim/default/b");
  EXPECT_TRUE(queue.done("b"));
  EXPECT_EQ(next(), "claim/default/a");
}

}  // namespace
}  // namespace egpu::reconcile
