#include "controller/agent/sharing/mps_limits.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "controller/agent/sharing/mps_daemon.h"
#include "controller/base/clock.h"
#include "provisioners/gpushare/mps_namespace.h"
#include "tests/agent/sharing/fake_driver.h"
#include "tests/support/scratch_folder.h"

namespace egpu::agent::sharing {
namespace {

using ::testing::HasSubstr;

class MpsLimitsTest : public ::testing::Test {
 protected:
  ~MpsLimitsTest() override {
    (void)daemon.end([] { return true; }, {});
  }
  void startDaemon(int protocol) {
    driver.set("protocol", protocol);
    const auto started = daemon.ensure({});
    ASSERT_TRUE(started.ok()) << started.str();
    ASSERT_EQ(daemon.version(), protocol);
  }
  /// Returns the reply of the daemon without white space at its end.
  std::string reply(const std::vector<std::string>& arguments, const std::string& input = "") {
    auto out = commands.control(card, arguments, input);
    return out.ok() ? out->substr(0, out->find_last_not_of('\n') + 1) : out.status().str();
  }
  std::string limit(const std::string& field, const std::string& device) {
    return reply({"namespace", "get", gpushare::mpsNamespaceOf(device), gpushare::kMpsServer, field});
  }

  support::ScratchFolder scratch;
  const std::string card = "GPU-A", state = scratch.path() + "/state";
  const std::string first = "11111111-0000-4000-8000-00000000000A", second = "22222222-0000-4000-8000-00000000000b";
  FakeDriver driver{scratch.path() + "/driver"};
  LocalPrograms programs;
  MpsCommands commands{programs, {state, "", driver.root()}};
  DaemonRecords records{state + "/mps-daemons"};
  base::SystemClock clock;
  MpsDaemonOptions options;
  MpsDaemon daemon{card, programs, commands, records, clock, options};
  MpsLimits limits{commands};
};

TEST_F(MpsLimitsTest, SharesAreRoundedAsInTheVariablesOfContainers) {
  EXPECT_EQ(limitsOf({"", "", 250, int64_t{4} << 30}), (ClientLimits{25, 4096}));
  EXPECT_EQ(limitsOf({"", "", 1, (1 << 20) + 5}), (ClientLimits{1, 1}));
  EXPECT_EQ(limitsOf({"", "", 0, int64_t{1} << 30}), (ClientLimits{0, 1024}));
  EXPECT_EQ(limitsOf({}), ClientLimits{});
}

TEST_F(MpsLimitsTest, ANamespaceHasTheEndOfTheUid) {
  EXPECT_EQ(gpushare::mpsNamespaceOf("11111111-2222-4333-8444-55555555555A"), "22224333844455555555555a");
  EXPECT_EQ(gpushare::mpsNamespaceOf("uid-7"), "uid7");
}

TEST_F(MpsLimitsTest, Version3HasANamespacePerDevice) {
  startDaemon(3);
  const auto set = limits.set(card, 3, {{first, {25, 4096}}, {second, {0, 1024}}});
  ASSERT_TRUE(set.ok()) << set.str();
  EXPECT_EQ(limit("active-thread-percentage", first), "25");
  EXPECT_EQ(limit("pinned-memory-limit", first), "4096M");
  EXPECT_EQ(limit("active-thread-percentage", second), "100");
  EXPECT_TRUE(std::filesystem::exists(mpsFoldersOf(state, card).pipe + "/card/" + gpushare::mpsNamespaceOf(first) +
                                      "/control"));
  ASSERT_TRUE(limits.set(card, 3, {{first, {50, 2048}}}).ok());
  EXPECT_EQ(limit("active-thread-percentage", first), "50");
  EXPECT_THAT(limit("pinned-memory-limit", second), HasSubstr("does not exist"));
}

TEST_F(MpsLimitsTest, Version2HasTheLargestLimitsForAllClients) {
  startDaemon(2);
  ASSERT_EQ(reply({}, "start_server -uid 0\n"), "");
  const auto server = reply({}, "get_server_list\n");
  const auto set = limits.set(card, 2, {{first, {25, 1024}}, {second, {10, 4096}}});
  ASSERT_TRUE(set.ok()) << set.str();
  EXPECT_EQ(reply({}, "get_default_active_thread_percentage\n"), "25.0");
  EXPECT_EQ(reply({}, "get_default_device_pinned_mem_limit GPU-A\n"), "4096M");
  EXPECT_EQ(reply({}, "get_active_thread_percentage " + server + "\n"), "25.0");
  EXPECT_EQ(reply({}, "get_device_pinned_mem_limit " + server + " GPU-A\n"), "4096M");
  ASSERT_TRUE(limits.set(card, 2, {{first, {25, 1024}}, {second, {0, 4096}}}).ok());
  EXPECT_EQ(reply({}, "get_default_active_thread_percentage\n"), "100.0") << "the second device has no limit";
}

TEST_F(MpsLimitsTest, ALimitThatTheDaemonDoesNotKeepIsAnError) {
  startDaemon(3);
  driver.set("forgets", {"pinned-memory-limit"});
  EXPECT_THAT(limits.set(card, 3, {{first, {25, 4096}}}).message(),
              HasSubstr("MPS reports the pinned-memory-limit \"none\" after it was set to 4096"));
  driver.set("forgets", {"active-thread-percentage"});
  EXPECT_THAT(limits.set(card, 3, {{first, {50, 4096}}}).message(),
              HasSubstr("MPS reports the active-thread-percentage \"25\" after it was set to 50"));
}

TEST_F(MpsLimitsTest, AFaultOfAServerIsFound) {
  for (const int version : {3, 2}) {
    startDaemon(version);
    ASSERT_TRUE(limits.set(card, version, {{first, {25, 4096}}}).ok());
    if (version == 2) {
      EXPECT_EQ(reply({}, "start_server -uid 0\n"), "");
    }
    EXPECT_FALSE(*limits.isFaulty(card, version)) << version;
    driver.set("fault", true);
    EXPECT_TRUE(*limits.isFaulty(card, version)) << version;
    driver.set("fault", false);
    ASSERT_TRUE(daemon.end([] { return true; }, {}).ok());
    EXPECT_FALSE(limits.isFaulty(card, version).ok()) << "no daemon runs";
  }
}

}  // namespace
}  // namespace egpu::agent::sharing
