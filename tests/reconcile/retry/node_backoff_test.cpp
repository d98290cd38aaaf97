#include "controller/reconcile/retry/node_backoff.h"

#include <gtest/gtest.h>

namespace egpu::reconcile {
namespace {

using namespace std::chrono_literals;

TEST(NodeBackoff, TheFirstFailedChoicesAreRepeatedAtOnceAndLaterOnesInGrowingIntervals) {
  base::ManualClock clock;
  NodeBackoff nodes(clock, kDefaultTimeouts);
  for (int i = 0; i < 3; ++i) nodes.choiceFailed("uid");
  EXPECT_EQ(nodes.untilNextChoice("uid"), 0ms);
  nodes.choiceFailed("uid");
  EXPECT_EQ(nodes.untilNextChoice("uid"), 1s);
  nodes.choiceFailed("uid");
  EXPECT_EQ(nodes.untilNextChoice("uid"), 2s);
  for (int i = 0; i < 20; ++i) nodes.choiceFailed("uid");
  EXPECT_EQ(nodes.untilNextChoice("uid"), 5min);
  EXPECT_EQ(nodes.untilNextChoice("other"), 0ms);
  nodes.forgetClaim("uid");
  EXPECT_EQ(nodes.untilNextChoice("uid"), 0ms);
  EXPECT_EQ(nodes.claims(), 0u);
}

TEST(NodeBackoff, ARejectedNodeIsAvoidedTwiceAsLongEachTime) {
  base::ManualClock clock;
  NodeBackoff nodes(clock, kDefaultTimeouts);
  nodes.reject("uid", "n1", "busy", 2min);
  EXPECT_EQ(nodes.untilNextNode("uid"), 2min);
  nodes.reject("uid", "n1", "busy", 2min);
  EXPECT_EQ(nodes.untilNextNode("uid"), 2min) << "the same refusal, reported again";
  clock.advance(2min);
  EXPECT_FALSE(nodes.rejected("uid", "n1"));
  nodes.reject("uid", "n1", "busy", 2min);
  EXPECT_EQ(nodes.untilNextNode("uid"), 4min);
  for (int i = 0; i < 10; ++i) {
    clock.advance(1h);
    nodes.reject("uid", "n1", "busy", 2min);
  }
  EXPECT_EQ(nodes.untilNextNode("uid"), 1h);
}

TEST(NodeBackoff, DurationsAreInjected) {
  base::ManualClock clock;
  Timeouts timeouts;
  timeouts.firstChoiceBackoff = 7s;
  timeouts.maxNodeBackoff = 3min;
  NodeBackoff nodes(clock, timeouts);
  for (int i = 0; i < 4; ++i) nodes.choiceFailed("uid");
  EXPECT_EQ(nodes.untilNextChoice("uid"), 7s);
  nodes.reject("uid", "n1", "busy", 5min);
  EXPECT_EQ(nodes.untilNextNode("uid"), 3min);
}

}  // namespace
}  // namespace egpu::reconcile
