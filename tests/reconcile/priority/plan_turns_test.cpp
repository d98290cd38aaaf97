// Turns of claims that wait for a search for victims.
#include "controller/reconcile/priority/plan_turns.h"

#include <gtest/gtest.h>

#include <string>

namespace egpu::reconcile {
namespace {

using std::chrono::milliseconds;

class PlanTurnsTest : public ::testing::Test {
 protected:
  void wait(const std::string& uid, int64_t priority = 0) {
    turns.wait({-priority, {"2026-01-01T00:00:00Z", uid}}, "claim/default/" + uid);
  }
  std::string next(milliseconds rest = milliseconds(0)) { return turns.next(rest).queueKey.value_or(""); }

  base::ManualClock clock;
  PlanTurns turns{clock, kDefaultTimeouts};
};

TEST_F(PlanTurnsTest, TheHighestPriorityHasTheFirstTurnThenTheOldest) {
  wait("b");
  wait("a");
  wait("high", 5);
  EXPECT_EQ(next(), "claim/default/high");
  EXPECT_TRUE(turns.hasTurn("claim/default/high"));
  EXPECT_EQ(next(), "") << "one at a time";
  EXPECT_TRUE(turns.done("high"));
  EXPECT_EQ(next(), "claim/default/a");
  EXPECT_TRUE(turns.done("a"));
  EXPECT_EQ(next(), "claim/default/b");
  EXPECT_FALSE(turns.done("b")) << "no other waits";
  EXPECT_FALSE(turns.next({}).again);
}

TEST_F(PlanTurnsTest, NoTurnBeginsDuringARest) {
  wait("a");
  const auto rests = turns.next(milliseconds(40));
  EXPECT_FALSE(rests.queueKey);
  EXPECT_EQ(rests.again, milliseconds(40));
  EXPECT_FALSE(turns.hasTurn("claim/default/a"));
}

TEST_F(PlanTurnsTest, AClaimThatDoesNotSearchLosesItsTurn) {
  wait("gone");
  wait("next");
  EXPECT_EQ(next(), "claim/default/gone");
  const auto held = turns.next({});
  EXPECT_FALSE(held.queueKey);
  EXPECT_EQ(held.again, kDefaultTimeouts.victimSearchTurnTimeout);
  clock.advance(kDefaultTimeouts.victimSearchTurnTimeout);
  EXPECT_EQ(next(), "claim/default/next");
  EXPECT_FALSE(turns.done("next")) << "the first waits no longer";
}

TEST_F(PlanTurnsTest, AClaimWhoseSearchIsMadeOutOfTurnLeavesTheLine) {
  wait("a");
  wait("b");
  EXPECT_TRUE(turns.done("a"));
  EXPECT_EQ(next(), "claim/default/b");
}

TEST_F(PlanTurnsTest, AnotherPriorityIsAnotherPlace) {
  wait("a");
  wait("b");
  wait("b", 5);
  EXPECT_EQ(next(), "claim/default/b");
  EXPECT_TRUE(turns.done("b"));
  EXPECT_EQ(next(), "claim/default/a");
}

}  // namespace
}  // namespace egpu::reconcile
