// The conditions of a claim and their reasons.
#include <algorithm>

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using ConditionsTest = ReconcileTest;

TEST_F(ConditionsTest, WarningsAreReported) {
  world.addClaim("a", "nosuch", {{"gpu-core", "10"}});
  settle();
  const auto lines = driver->events.lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].rfind("a Warning ClassNotFound", 0), 0u);
}

TEST_F(ConditionsTest, WaitingIsReportedAsNormalAndRefusalAsWarning) {
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addClaim("b", "share", {{"gpu", "3"}});
  settle();
  const auto lines = driver->events.lines();
  const auto hasEvent = [&](const std::string& start) {
    return std::any_of(lines.begin(), lines.end(), [&](const auto& l) { return l.rfind(start, 0) == 0; });
  };
  EXPECT_TRUE(hasEvent("a Normal WaitingForConsumer"));
  EXPECT_TRUE(hasEvent("b Warning NoFit"));
}

TEST_F(ConditionsTest, OneClaimThatChangedBlocksNoReportOnTheOthers) {
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addClaim("b", "late", {{"gpu-core", "10"}});
  settle();
  StatusAlternations alternations(world.clock, kDefaultTimeouts, driver->metrics);
  Writer writer(world.client, driver->stores, alternations);
  ClaimStatus status(writer, driver->stores, driver->events, world.clock);
  auto a = notBound(world.claim("a"), "NoFit", "of a");
  const auto b = notBound(world.claim("b"), "NoFit", "of b");
  const auto gone = ConditionUpdate::of({}, ConditionUpdate::As::notBound, "NoFit", "of nobody");
  a.resourceVersion = "1";
  EXPECT_EQ(status.report({gone, a, b}, {}).code(), base::Code::conflict);
  EXPECT_EQ(world.message("b"), "of b");
  EXPECT_NE(world.message("a"), "of a") << "it is looked at again";
}

TEST_F(ConditionsTest, ThatAClaimMovesIsReportedThoughTheMoveChangedIt) {
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  settle();
  StatusAlternations alternations(world.clock, kDefaultTimeouts, driver->metrics);
  Writer writer(world.client, driver->stores, alternations);
  ClaimStatus status(writer, driver->stores, driver->events, world.clock);
  auto moves =
      ConditionUpdate::of(world.claim("a").metadata, ConditionUpdate::As::moves, "NodeUnsuitable", "n1 is full");
  moves.resourceVersion = "1";
  EXPECT_TRUE(status.report({moves}, {}).ok());
  EXPECT_EQ(countEvents("a Warning NodeUnsuitable n1 is full"), 1);
}

}  // namespace
}  // namespace egpu::reconcile
