#include "controller/agent/sharing/time_slices.h"

#include <gmock/gmock.h>

#include <memory>

#include "tests/agent/prepare/fixture.h"
#include "tests/agent/sharing/fake_driver.h"

namespace egpu::agent::sharing {
namespace {

using ::testing::HasSubstr;

class TimeSlicesTest : public PrepareTest {
 protected:
  TimeSlicesTest() {
    restartAgent("boot-1");
    onNode.beforeStage = [this](const v1alpha::ElasticGPU& device, const std::stop_token&) {
      auto its = device;
      its.status.isolation = v1alpha::Isolation{mode, "None", "None", "Soft"};
      return slices->requireFor(its);
    };
    preparer = std::make_unique<ClaimPreparer>(client, registry, events, folder, onNode);
  }
  void restartAgent(const std::string& boot) {
    slices = std::make_unique<TimeSlices>(commands, folder, scratch.path() + "/time-slices", boot);
  }
  ClaimRef prepared(const std::string& name, const std::string& slice) {
    const auto claim = claimed(name, "10", {{"timeSlice", slice}});
    const auto done = preparer->prepare(claim, {});
    EXPECT_TRUE(done.ok()) << done.status().str();
    return claim;
  }
  /// Number that the driver has for the card; -1 = the agent has set none.
  int slice() const { return driver.state().value("timeSlices", nlohmann::json::object()).value("GPU-n1-0", -1); }

  FakeDriver driver{scratch.path() + "/driver"};
  LocalPrograms programs;
  MpsCommands commands{programs, {scratch.path() + "/state", "", driver.root()}};
  std::string mode = "none";
  std::unique_ptr<TimeSlices> slices;
  PreparerOptions onNode{"n1", {}};
  std::unique_ptr<ClaimPreparer> preparer;
};

TEST_F(TimeSlicesTest, TheLastPreparedDeviceSetsTheSliceUntilTheCardIsUnused) {
  const auto first = prepared("a", "long");
  EXPECT_EQ(slice(), 3);
  const auto second = prepared("b", "short");
  EXPECT_EQ(slice(), 1);
  world.removePod("a");
  ASSERT_TRUE(preparer->unprepare(first, {}).ok());
  slices->restoreUnused();
  EXPECT_EQ(slice(), 1) << "the second device uses the card";
  world.removePod("b");
  ASSERT_TRUE(preparer->unprepare(second, {}).ok());
  restartAgent("boot-1");
  slices->restoreUnused();
  EXPECT_EQ(slice(), 0);
  driver.set("timeSlices", nlohmann::json::object());
  slices->restoreUnused();
  EXPECT_EQ(slice(), -1) << "the default is set once";
}

TEST_F(TimeSlicesTest, ASliceIsSetAgainAfterAReboot) {
  auto device = deviceOf(prepared("a", "medium"));
  device.status.isolation = v1alpha::Isolation{"none", "None", "None", "Soft"};
  driver.set("timeSlices", nlohmann::json::object());
  ASSERT_TRUE(slices->requireFor(device).ok());
  EXPECT_EQ(slice(), -1) << "the slice is known to be set";
  restartAgent("boot-2");
  ASSERT_TRUE(slices->requireFor(device).ok());
  EXPECT_EQ(slice(), 2);
}

TEST_F(TimeSlicesTest, DevicesWithoutTheParameterOrWithAnotherModeChangeNothing) {
  ASSERT_TRUE(preparer->prepare(claimed("a"), {}).ok());
  mode = "limiter";
  prepared("b", "short");
  EXPECT_EQ(slice(), -1);
}

TEST_F(TimeSlicesTest, ACardThatRefusesTheSliceFailsThePrepare) {
  driver.set("cards", {"GPU-other"});
  const auto done = preparer->prepare(claimed("a", "10", {{"timeSlice", "short"}}), {});
  EXPECT_THAT(done.status().message(), HasSubstr("the time slice of card GPU-n1-0 can't be set to short: "));
  EXPECT_EQ(plugin.staged(), 0u);
  driver.set("cards", {"GPU-n1-0"});
  EXPECT_TRUE(preparer->prepare({"default", "a", world.resourceClaim("a")->metadata.uid}, {}).ok());
  EXPECT_EQ(slice(), 1);
}

}  // namespace
}  // namespace egpu::agent::sharing
