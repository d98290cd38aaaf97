// Preemption for claims from templates with WaitForFirstConsumer, as in samples/two-teams.
#include <gtest/gtest.h>

#include <string>

#include "tests/pod_claims/fixture.h"

namespace egpu::server {
namespace {

class PreemptForTemplate : public ClaimedPodsTest {
 protected:
  void SetUp() override {
    ClaimedPodsTest::SetUp();
    addClassOf("WaitForFirstConsumer");
    for (int i = 0; i < 16; ++i) addPod("low-" + std::to_string(i), kQuarter);
    ASSERT_TRUE(rests());
    ASSERT_EQ(running("low"), 16u) << "sixteen quarters fill four cards";
  }
  static void high(core::Pod& pod) { pod.priority = 1000; }
  const Requests kQuarter = {{"gpu-core", "25"}, {"gpu-memory", "4Gi"}};
};

TEST_F(PreemptForTemplate, AsManyGoAsTheRequestNeeds) {
  addPod("quarter", kQuarter, high);
  EXPECT_TRUE(rests()) << "objects are written again and again";
  EXPECT_TRUE(runs("quarter")) << messagesOf("quarter");
  EXPECT_EQ(running("low"), 15u);
  addPod("half", {{"gpu-core", "50"}, {"gpu-memory", "8Gi"}}, high);
  EXPECT_TRUE(rests());
  EXPECT_TRUE(runs("half")) << messagesOf("half");
  EXPECT_EQ(running("low"), 13u);
  addPod("memory", {{"gpu-memory", "5Gi"}}, high);
  EXPECT_TRUE(rests());
  EXPECT_TRUE(runs("memory")) << messagesOf("memory");
  EXPECT_EQ(running("low"), 11u) << "two quarters have 4Gi each";
  EXPECT_EQ(world.violation(), "");
}

TEST_F(PreemptForTemplate, NothingGoesForAPodOfEqualPriority) {
  addPod("equal", {{"gpu-core", "50"}, {"gpu-memory", "8Gi"}});
  EXPECT_TRUE(rests());
  EXPECT_FALSE(runs("equal"));
  EXPECT_EQ(running("low"), 16u);
}

TEST_F(PreemptForTemplate, TheStatusRestsWhileVictimsTakeTheirTime) {
  for (int i = 0; i < 16; ++i)
    world.json<core::Pod>({"default", "low-" + std::to_string(i)},
                          R"({"metadata":{"finalizers":["example.com/ends"]}})");
  settle();
  addPod("high", kQuarter, high);
  EXPECT_TRUE(rests()) << "the nomination is written and taken back again and again";
  ASSERT_EQ(claimsOf("high").size(), 1u);
  EXPECT_EQ(world.reason(claimsOf("high").front()), "Preempting");
  EXPECT_TRUE(world.claim(claimsOf("high").front()).status.nominated);
  EXPECT_EQ(running("low"), 15u) << "one pod is evicted and takes its time";
  for (int i = 0; i < 16; ++i)
    world.json<core::Pod>({"default", "low-" + std::to_string(i)}, R"({"metadata":{"finalizers":null}})");
  EXPECT_TRUE(rests());
  EXPECT_TRUE(runs("high")) << messagesOf("high");
}

}  // namespace
}  // namespace egpu::server
