#include "controller/reconcile/priority/shared_plans.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace egpu::reconcile {
namespace {

cache::Claim member(const std::string& annotation, const std::string& value) {
  cache::Claim claim;
  claim.metadata.namespace_ = "ns";
  claim.metadata.annotations = {{annotation, value}, {"elasticgpu.io/gang-size", "8"}};
  return claim;
}

SharedPlan plan(std::vector<std::string> victims) {
  SharedPlan made;
  made.victims = std::move(victims);
  return made;
}

TEST(SharedPlans, AreOfGangsAlone) {
  EXPECT_EQ(SharedPlans::keyOf(member("elasticgpu.io/other", "a")), "");
  const auto gang = SharedPlans::keyOf(member("elasticgpu.io/gang", "a"));
  EXPECT_EQ(gang, SharedPlans::keyOf(member("elasticgpu.io/gang", "a")));
  EXPECT_NE(gang, "");
  EXPECT_NE(gang, SharedPlans::keyOf(member("elasticgpu.io/gang", "b")));
  base::ManualClock clock;
  SharedPlans plans(clock, kDefaultTimeouts);
  plans.put("", plan({"a"}), plans.generation());
  EXPECT_EQ(plans.find(""), nullptr);
}

TEST(SharedPlans, StandForASecondOrUntilThePlanIsMadeAnew) {
  base::ManualClock clock;
  SharedPlans plans(clock, kDefaultTimeouts);
  EXPECT_EQ(plans.find("k"), nullptr);
  plans.put("k", plan({"a"}), plans.generation());
  clock.advance(std::chrono::milliseconds(999));
  ASSERT_NE(plans.find("k"), nullptr);
  EXPECT_EQ(plans.find("k")->victims, std::vector<std::string>{"a"});
  EXPECT_EQ(plans.find("other"), nullptr);
  clock.advance(std::chrono::milliseconds(1));
  EXPECT_EQ(plans.find("k"), nullptr);
  plans.put("k", plan({"a"}), plans.generation());
  const auto before = plans.generation();
  plans.forget("k");
  EXPECT_EQ(plans.find("k"), nullptr);
  plans.put("k", plan({"b"}), before);
  EXPECT_EQ(plans.find("k"), nullptr) << "what was found before the plan was made anew is old news";
}

TEST(SharedPlans, OneCallerChecksAnOldResultWhileTheOthersUseIt) {
  base::ManualClock clock;
  SharedPlans plans(clock, kDefaultTimeouts);
  plans.put("k", plan({"a"}), plans.generation());
  clock.advance(kDefaultTimeouts.planTtl);
  EXPECT_EQ(plans.find("k"), nullptr);
  EXPECT_NE(plans.find("k"), nullptr);
  clock.advance(kDefaultTimeouts.planTtl);
  EXPECT_EQ(plans.find("k"), nullptr) << "the first caller did not complete its check";
  EXPECT_NE(plans.find("k"), nullptr);
  clock.advance(kDefaultTimeouts.planTtl);
  EXPECT_EQ(plans.find("k"), nullptr);
  EXPECT_EQ(plans.find("k"), nullptr) << "three times as old as planTtl";
  EXPECT_NE(plans.last("k"), nullptr);
  plans.put("k", plan({"b"}), plans.generation());
  EXPECT_EQ(plans.find("k")->victims, std::vector<std::string>{"b"});
  plans.forget("k");
  EXPECT_EQ(plans.last("k"), nullptr);
}

TEST(SharedPlans, ARecentResultLeavesTheNextCheckToOthers) {
  base::ManualClock clock;
  SharedPlans plans(clock, kDefaultTimeouts);
  EXPECT_EQ(plans.recent("k"), nullptr);
  plans.put("k", plan({"a"}), plans.generation());
  clock.advance(2 * kDefaultTimeouts.planTtl);
  ASSERT_NE(plans.recent("k"), nullptr);
  EXPECT_EQ(plans.recent("k")->victims, std::vector<std::string>{"a"});
  EXPECT_EQ(plans.find("k"), nullptr) << "its caller checks the plan";
  clock.advance(kDefaultTimeouts.planTtl);
  EXPECT_EQ(plans.recent("k"), nullptr) << "too old";
  plans.put("k", plan({"a"}), plans.generation());
  plans.forget("k");
  EXPECT_EQ(plans.recent("k"), nullptr);
}

TEST(SharedPlans, AVersionIsAwaitedForLessThanThreeTimesPlanTtl) {
  base::ManualClock clock;
  SharedPlans plans(clock, kDefaultTimeouts);
  EXPECT_FALSE(plans.awaited("k"));
  plans.await("k", 7);
  ASSERT_TRUE(plans.awaited("k"));
  EXPECT_EQ(plans.awaited("k")->version, 7U);
  plans.endAwait("k");
  EXPECT_FALSE(plans.awaited("k"));
  plans.await("k", 8);
  clock.advance(2 * kDefaultTimeouts.planTtl);
  plans.await("other", 9);
  EXPECT_TRUE(plans.awaited("k")) << "another gang's does not end it";
  clock.advance(kDefaultTimeouts.planTtl);
  EXPECT_FALSE(plans.awaited("k")) << "the state of that version is too old";
}

TEST(SharedPlans, EachPageOfAListingExtendsTheTime) {
  base::ManualClock clock;
  SharedPlans plans(clock, kDefaultTimeouts);
  const std::vector claims{std::make_shared<const cache::Claim>()};
  plans.await("k", 7);
  clock.advance(2 * kDefaultTimeouts.planTtl);
  ClaimListing listing(claims);
  listing.continueToken = "second";
  plans.await("k", 7, listing);
  clock.advance(2 * kDefaultTimeouts.planTtl);
  const auto awaited = plans.awaited("k");
  ASSERT_TRUE(awaited && awaited->listing);
  EXPECT_EQ(awaited->listing->continueToken, "second");
  EXPECT_EQ(awaited->version, 7U);
  clock.advance(kDefaultTimeouts.planTtl);
  EXPECT_FALSE(plans.awaited("k"));
}

TEST(SharedPlans, BudgetsThatWereAskedForTheSameVictimsCountOn) {
  base::ManualClock clock;
  SharedPlans plans(clock, kDefaultTimeouts);
  const auto first = plans.put("k", plan({"a", "b"}), plans.generation());
  const auto batch = first->budgetsAsked->next();
  ASSERT_TRUE(batch);
  first->budgetsAsked->done(*batch);
  clock.advance(std::chrono::seconds(5));
  EXPECT_TRUE(plans.put("k", plan({"a", "b"}), plans.generation())->budgetsAsked->allDone());
  EXPECT_FALSE(plans.put("k", plan({"a", "c"}), plans.generation())->budgetsAsked->allDone());
}

TEST(Batches, EachPositionIsHandedOutOnceAndARoundThatEndedCountsNoMore) {
  Batches batches(2 * Batches::kBatch + 1);
  std::vector<Batches::Batch> taken;
  while (const auto batch = batches.next()) taken.push_back(*batch);
  ASSERT_EQ(taken.size(), 3U);
  EXPECT_EQ(taken[2].to - taken[2].from, 1U);
  batches.done(taken[0]);
  batches.done(taken[2]);
  EXPECT_FALSE(batches.allDone());
  batches.startOver();
  batches.done(taken[1]);
  while (const auto batch = batches.next()) {
    EXPECT_FALSE(batches.allDone());
    batches.done(*batch);
  }
  EXPECT_TRUE(batches.allDone());
  EXPECT_TRUE(Batches(0).allDone());
}

}  // namespace
}  // namespace egpu::reconcile
