// Texts that are made outside of the steps which request them.
#include "controller/reconcile/placement/explainer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/base/clock.h"

namespace egpu::reconcile {
namespace {

using Keys = std::vector<std::string>;

class ExplainerTest : public ::testing::Test {
 protected:
  /// Requests a text that takes that long to make.
  void request(const std::string& claim, std::chrono::milliseconds cost = {}, const std::string& text = "full") {
    explainer.request(claim, "claim/ns/" + claim, [this, claim, cost, text] {
      made.push_back(claim);
      clock.advance(cost);
      return text;
    });
  }

  base::ManualClock clock;
  Explainer explainer{clock, kDefaultTimeouts};
  Keys made;
};

TEST_F(ExplainerTest, GivesEachTextOnceToTheClaimThatRequestedIt) {
  request("a");
  request("b", {}, "short of memory");
  EXPECT_EQ(explainer.take("a"), std::nullopt) << "not made yet";
  const auto explained = explainer.explain();
  EXPECT_EQ(explained.queueKeys, (Keys{"claim/ns/a", "claim/ns/b"}));
  EXPECT_FALSE(explained.isMoreRequested);
  EXPECT_EQ(explainer.take("b"), "short of memory");
  EXPECT_EQ(explainer.take("b"), std::nullopt);
  EXPECT_EQ(explainer.take("a"), "full");
  EXPECT_EQ(explainer.claims(), 0U);
  EXPECT_EQ(explainer.explain().queueKeys, Keys());
}

TEST_F(ExplainerTest, DropsATextThatWasNotReportedInTime) {
  request("a");
  explainer.explain();
  clock.advance(kDefaultTimeouts.explainInterval + std::chrono::milliseconds(1));
  EXPECT_EQ(explainer.take("a"), std::nullopt);
  EXPECT_EQ(explainer.claims(), 0U);
}

TEST_F(ExplainerTest, OneCallIsShortHoweverManyAreRequested) {
  for (const auto* claim : {"a", "b", "c"}) request(claim, Explainer::kMaxStepTime / 2);
  auto explained = explainer.explain();
  EXPECT_EQ(explained.queueKeys.size(), 2U);
  EXPECT_TRUE(explained.isMoreRequested);
  explained = explainer.explain();
  EXPECT_EQ(explained.queueKeys, Keys{"claim/ns/c"});
  EXPECT_FALSE(explained.isMoreRequested);
}

TEST_F(ExplainerTest, ARepeatedRequestReplacesTheTextAndRetainsItsPosition) {
  request("a", {}, "old");
  request("b");
  request("a", {}, "new");
  EXPECT_EQ(explainer.explain().queueKeys, (Keys{"claim/ns/a", "claim/ns/b"}));
  EXPECT_EQ(made, (Keys{"a", "b"}));
  request("a", {}, "newer");
  EXPECT_EQ(explainer.take("a"), std::nullopt) << "the text of the earlier request is outdated";
  EXPECT_EQ(explainer.explain().queueKeys, Keys{"claim/ns/a"});
  EXPECT_EQ(explainer.take("a"), "newer");
}

TEST_F(ExplainerTest, MakesNoTextForAClaimThatIsGone) {
  request("a");
  explainer.forgetClaim("a");
  EXPECT_EQ(explainer.explain().queueKeys, Keys());
  EXPECT_EQ(made, Keys());
  explainer.request("b", "claim/ns/b", [this] {
    explainer.forgetClaim("b");
    return std::string("late");
  });
  EXPECT_EQ(explainer.explain().queueKeys, Keys());
  EXPECT_EQ(explainer.claims(), 0U);
}

TEST_F(ExplainerTest, ARequestDuringItsOwnExplanationIsServedAfterwards) {
  explainer.request("a", "claim/ns/a", [this] {
    request("a", {}, "new");
    return std::string("old");
  });
  EXPECT_EQ(explainer.explain().queueKeys, Keys{"claim/ns/a"});
  EXPECT_EQ(explainer.take("a"), "new");
  EXPECT_EQ(explainer.claims(), 0U);
}

}  // namespace
}  // namespace egpu::reconcile
