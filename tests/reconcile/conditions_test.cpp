// What is said on a claim, and as what.
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using ConditionsTest = ReconcileTest;

TEST_F(ConditionsTest, WarningsAreTold) {
  world.addClaim("a", "nosuch", {{"gpu-core", "10"}});
  settle();
  const auto lines = driver->events.lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].rfind("a Warning ClassNotFound", 0), 0u);
}

TEST_F(ConditionsTest, WaitingIsToldAsNormalAndRefusalAsWarning) {
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addClaim("b", "share", {{"gpu", "3"}});
  settle();
  const auto lines = driver->events.lines();
  const auto told = [&](const std::string& start) {
    return std::any_of(lines.begin(), lines.end(), [&](const auto& l) { return l.rfind(start, 0) == 0; });
  };
  EXPECT_TRUE(told("a Normal WaitingForConsumer"));
  EXPECT_TRUE(told("b Warning NoFit"));
}

}  // namespace
}  // namespace egpu::reconcile
