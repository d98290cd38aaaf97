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
  /// Requests a text for which that many nodes are read.
  void request(const std::string& claim, std::size_t nodes = 1, const std::string& text = "full") {
    explainer.request(claim, "claim/ns/" + claim, [this, claim, nodes, text] {
      made.push_back(claim);
      return Explainer::Text{text, nodes};
    });
  }

  base::ManualClock clock;
  Explainer explainer{clock, kDefaultTimeouts};
  Keys made;
};

TEST_F(ExplainerTest, GivesEachTextOnceToTheClaimThatRequestedIt) {
  request("a");
  request("b", 1, "short of memory");
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

TEST_F(ExplainerTest, OneCallReadsABoundedNumberOfNodes) {
  for (const auto* claim : {"a", "b", "c"}) request(claim, Explainer::kMaxStepNodes / 2);
  auto explained = explainer.explain();
  EXPECT_EQ(explained.queueKeys.size(), 2U);
  EXPECT_TRUE(explained.isMoreRequested);
  explained = explainer.explain();
  EXPECT_EQ(explained.queueKeys, Keys{"claim/ns/c"});
  EXPECT_FALSE(explained.isMoreRequested);
}

TEST_F(ExplainerTest, ARepeatedRequestReplacesTheTextAndRetainsItsPosition) {
  request("a", 1, "old");
  request("b");
  request("a", 1, "new");
  EXPECT_EQ(explainer.explain().queueKeys, (Keys{"claim/ns/a", "claim/ns/b"}));
  EXPECT_EQ(made, (Keys{"a", "b"}));
  request("a", 1, "newer");
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
    return Explainer::Text{"late", 1};
  });
  EXPECT_EQ(explainer.explain().queueKeys, Keys());
  EXPECT_EQ(explainer.claims(), 0U);
}

TEST_F(ExplainerTest, ARequestDuringItsOwnExplanationIsServedAfterwards) {
  explainer.request("a", "claim/ns/a", [this] {
    request("a", 1, "new");
    return Explainer::Text{"old", 1};
  });
  EXPECT_EQ(explainer.explain().queueKeys, Keys{"claim/ns/a"});
  EXPECT_EQ(explainer.take("a"), "new");
  EXPECT_EQ(explainer.claims(), 0U);
}

}  // namespace
}  // namespace egpu::reconcile
