// Several plugins, good and bad, side by side: failures are limited to a plugin's class, and readiness reports the
// reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "controller/plugin/hosted_registry.h"
#include "tests/plugin/zoo.h"

namespace egpu::plugin {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using testing::builtIn;
using ::testing::Contains;
using testing::device;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::zoo;

/// Records changes and lets a test wait for a state.
class Changes {
 public:
  void watch(Registry& registry) {
    registry.onChange([this](const std::string& name) {
      const std::lock_guard lock(mutex_);
      names_.push_back(name);
      changed_.notify_all();
    });
  }
  bool waitFor(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), condition);
  }
  std::vector<std::string> names() {
    const std::lock_guard lock(mutex_);
    return names_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> names_;
};

class RegistryTest : public ::testing::Test {
 protected:
  RegistryTest() {
    options.openWait = milliseconds(600'000);
    options.grace = milliseconds(20);
    options.backoffFirst = milliseconds(2);
    options.maxBackoff = milliseconds(2);
  }
  HostedRegistry& open(const std::vector<std::string>& paths) {
    registry = std::make_unique<HostedRegistry>(paths, options, clock, random);
    changes.watch(*registry);
    return *registry;
  }
  bool ready(const std::string& name) {
    return changes.waitFor([&] { return registry->readiness(name).ok(); });
  }

  HostOptions options;
  base::SystemClock clock;
  base::Random random{7};
  Changes changes;
  std::unique_ptr<HostedRegistry> registry;
};

TEST_F(RegistryTest, ADirectoryStandsForItsPlugins) {
  HostedRegistry& r = open({EGPU_PROVISIONER_DIR});
  EXPECT_THAT(r.names(),
              AllOf(Contains("gpushare.provisioner.elasticgpu.io"), Contains("mock.provisioner.elasticgpu.io"),
                    Contains("physical.provisioner.elasticgpu.io")));
  EXPECT_TRUE(r.readiness("gpushare.provisioner.elasticgpu.io").ok());
  EXPECT_TRUE(r.find("physical.provisioner.elasticgpu.io", nullptr)->provision(device("a")).ok());
  EXPECT_TRUE(r.find("gpushare.provisioner.elasticgpu.io", nullptr)->list().keys.empty());
}

TEST_F(RegistryTest, AMissingFolderOrFileIsReported) {
  HostedRegistry& r = open({"/nonexistent/plugins.so", EGPU_SOURCE_DIR "/manifests"});
  std::string why;
  EXPECT_EQ(r.find("a.b", &why), nullptr);
  EXPECT_THAT(why, AllOf(HasSubstr("no provisioner of the name a.b"), HasSubstr("plugins.so")));
}

TEST_F(RegistryTest, OfTwoPluginsWithOneNameTheFirstStays) {
  HostedRegistry& r = open({zoo("second_good"), zoo("good")});
  EXPECT_THAT(r.names(), ElementsAre("good.example.com"));
  EXPECT_TRUE(r.readiness("good.example.com").ok());
  EXPECT_EQ(r.hosted("good.example.com")->path(), zoo("second_good"));
  const auto files = r.files();
  ASSERT_EQ(files.size(), 2u);
  EXPECT_THAT(files[1].readiness.message, HasSubstr("already loaded from " + zoo("second_good")));
  EXPECT_TRUE(r.find("good.example.com", nullptr)->validate({}).ok());
}

TEST_F(RegistryTest, TheWholeZooHarmsNobodyElse) {
  // One plugin each uses up these timeouts; shorter ones would make good plugins fail on a busy machine.
  options.startTimeout = milliseconds(10'000);
  options.deadlines.slow = milliseconds(5'000);
  options.maxBackoff = options.backoffFirst = milliseconds(100);
  std::vector<std::string> paths{builtIn("physical")};
  const std::vector<std::string> bad = {"no_entry",     "null_table", "refuses",   "wrong_version", "short_table",
                                        "missing_slot", "bad_name",   "null_name", "hangs_at_load", "crashes_at_load"};
  const std::vector<std::string> falling = {"hangs",         "crashes",      "exits", "garbage_frames",
                                            "wrong_answers", "garbage_code", "throws"};
  for (const auto& name : bad) paths.push_back(zoo(name));
  for (const auto& name : falling) paths.push_back(zoo(name));
  HostedRegistry& r = open(paths);
  Provisioner* good = r.find("physical.provisioner.elasticgpu.io", nullptr);
  ASSERT_NE(good, nullptr);
  ASSERT_TRUE(good->provision(device("before")).ok());
  for (const auto& name : r.names()) {
    if (name == good->description().name) continue;
    const ReplyCode outcome = r.find(name, nullptr)->provision(device("a")).outcome;
    EXPECT_TRUE(outcome == ReplyCode::timeout || outcome == ReplyCode::crashed || outcome == ReplyCode::garbage)
        << name << ": " << toString(outcome);
    EXPECT_EQ(good->provision(device("before")).outcome, ReplyCode::noChange) << "after " << name;
  }
  EXPECT_EQ(r.names().size(), falling.size() + 1);
  EXPECT_EQ(r.hosted(good->description().name)->starts(), 1u);
  EXPECT_TRUE(r.readiness(good->description().name).ok());
  // Plugins without a name are listed with their error in the message for each missing name.
  const std::string why = r.readiness("no.such.plugin").message;
  for (const auto& name : bad) EXPECT_THAT(why, HasSubstr("lib" + name + ".so: "));
  EXPECT_THAT(why, AllOf(HasSubstr("libwrong_version.so: it was built for ABI version 2"),
                         HasSubstr("no symbol egpu_provisioner_entry")));
}

TEST_F(RegistryTest, APluginThatHangsAtItsLoadBlocksNobody) {
  options.startTimeout = milliseconds(600'000);
  options.openWait = milliseconds(1);
  HostedRegistry& r = open({builtIn("physical"), zoo("hangs_at_load")});
  ASSERT_TRUE(ready("physical.provisioner.elasticgpu.io")) << "also if it came up after the registry was open";
  EXPECT_TRUE(r.find("physical.provisioner.elasticgpu.io", nullptr)->provision(device("a")).ok());
  EXPECT_THAT(r.readiness("no.such.plugin").message, HasSubstr("libhangs_at_load.so is starting"));
}

TEST_F(RegistryTest, ChangesAreReportedAsAPluginFallsAndRecovers) {
  HostedRegistry& r = open({zoo("good"), builtIn("physical")});
  HostedProvisioner* good = r.hosted("good.example.com");
  const uint64_t starts = good->starts();
  ASSERT_EQ(kill(good->pid(), SIGKILL), 0);
  ASSERT_TRUE(changes.waitFor([&] { return good->starts() > starts && r.readiness("good.example.com").ok(); }));
  const auto names = changes.names();
  EXPECT_GE(std::count(names.begin(), names.end(), "good.example.com"), 2) << "down, and up again";
  EXPECT_EQ(std::count(names.begin(), names.end(), "physical.provisioner.elasticgpu.io"), 0);
  EXPECT_EQ(r.find("good.example.com", nullptr), good) << "the pointer stays valid";
  EXPECT_TRUE(good->validate({}).ok());
}

TEST_F(RegistryTest, ACrashLoopOfOneLeavesTheOtherAlone) {
  HostedRegistry& r = open({zoo("crashes"), builtIn("physical")});
  Provisioner* physical = r.find("physical.provisioner.elasticgpu.io", nullptr);
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(ready("crashes.example.com"));
    EXPECT_EQ(r.find("crashes.example.com", nullptr)->provision(device("a")).outcome, ReplyCode::crashed);
    EXPECT_TRUE(physical->provision(device("k" + std::to_string(round))).ok());
  }
  EXPECT_EQ(physical->list().keys.size(), 5u);
}

TEST_F(RegistryTest, ClosingLeavesNoProcess) {
  HostedRegistry& r = open({EGPU_PROVISIONER_DIR, zoo("good"), zoo("crashes_at_load")});
  EXPECT_FALSE(r.names().empty());
  registry.reset();
  int status;
  EXPECT_EQ(waitpid(-1, &status, WNOHANG), -1);
}

}  // namespace
}  // namespace egpu::plugin
