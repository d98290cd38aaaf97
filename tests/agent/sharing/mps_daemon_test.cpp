// The daemon of one card with real processes: the fakes of tests/gpu/mps take the place of NVIDIA's programs.
#include "controller/agent/sharing/mps_daemon.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include "controller/agent/sharing/mps_processes.h"
#include "controller/base/clock.h"
#include "controller/base/files.h"
#include "tests/agent/sharing/fake_driver.h"
#include "tests/support/scratch_folder.h"

namespace egpu::agent::sharing {
namespace {

using ::testing::HasSubstr;

class MpsDaemonTest : public ::testing::Test {
 protected:
  MpsDaemonTest() {
    options.boot = "boot";
    daemon = std::make_unique<MpsDaemon>(card, programs, commands, records, clock, options);
  }
  ~MpsDaemonTest() override {
    for (const auto& each : processes()) programs.signal(each.pid, SIGKILL);
    (void)programs.unmount(folders.sharedMemory);
  }
  std::string mode() const { return driver.modeOf(card); }
  std::vector<MpsProcess> processes() const { return mpsProcesses("/proc", folders.pipe); }

  support::ScratchFolder scratch;
  const std::string card = "GPU-A", state = scratch.path() + "/state";
  FakeDriver driver{scratch.path() + "/driver"};
  LocalPrograms programs;
  MpsCommands commands{programs, {state, "", driver.root()}};
  DaemonRecords records{state + "/mps-daemons"};
  base::SystemClock clock;
  MpsDaemonOptions options;
  const MpsFolders folders = mpsFoldersOf(state, card);
  std::unique_ptr<MpsDaemon> daemon;
  const std::function<bool()> isUnused = [] { return true; };
};

TEST_F(MpsDaemonTest, AStartedDaemonRunsUntilItIsEnded) {
  const auto started = daemon->ensure({});
  ASSERT_TRUE(started.ok()) << started.str();
  EXPECT_TRUE(daemon->isRunning());
  EXPECT_EQ(mode(), "Exclusive_Process");
  ASSERT_EQ(processes().size(), 1u);
  EXPECT_TRUE(processes()[0].isStartedByAgent);
  EXPECT_FALSE(daemon->isServedByOperator());
  const auto ended = daemon->end(isUnused, {});
  ASSERT_TRUE(ended.ok()) << ended.str();
  EXPECT_EQ(mode(), "Default");
  EXPECT_TRUE(processes().empty());
  EXPECT_FALSE(daemon->hasRecord());
  EXPECT_FALSE(std::filesystem::exists(folders.pipe)) << "a plugin would take the socket for a daemon";
  EXPECT_FALSE(*programs.hasTmpfs(folders.sharedMemory));
}

TEST_F(MpsDaemonTest, AnotherObjectFindsTheDaemonAndItsEnd) {
  ASSERT_TRUE(daemon->ensure({}).ok());
  const auto pid = processes().at(0).pid;
  daemon = std::make_unique<MpsDaemon>(card, programs, commands, records, clock, options);
  ASSERT_TRUE(daemon->read().ok());
  EXPECT_TRUE(daemon->isRunning());
  programs.signal(pid, SIGKILL);
  while (daemon->isRunning()) clock.sleepFor(options.pollInterval, {});
  EXPECT_EQ(daemon->endedPid(), pid);
  ASSERT_TRUE(daemon->ensure({}).ok());
  EXPECT_NE(processes().at(0).pid, pid);
}

TEST_F(MpsDaemonTest, ADaemonThatEndsAtItsStartIsReportedWithItsOutput) {
  driver.set("broken", "no such card");
  EXPECT_THAT(daemon->ensure({}).message(), HasSubstr("the MPS daemon of card GPU-A ended at its start: no such card"));
  EXPECT_EQ(daemon->endedPid(), 0);
  EXPECT_TRUE(daemon->hasRecord());
  ASSERT_TRUE(daemon->end(isUnused, {}).ok());
  EXPECT_EQ(mode(), "Default");
}

/// Containers can write to the folder of version 2, and could replace the folder of a namespace by a link.
TEST_F(MpsDaemonTest, ADaemonOfVersion3HasANewPipeFolderAfterOneOfVersion2) {
  driver.set("protocol", 2);
  ASSERT_TRUE(daemon->ensure({}).ok());
  EXPECT_EQ(daemon->version(), 2);
  EXPECT_FALSE(std::filesystem::exists(folders.namespaces));
  const support::ScratchFolder elsewhere;
  std::ofstream(elsewhere.path() + "/control") << "kept";
  std::filesystem::create_directories(folders.pipe + "/card");
  std::filesystem::create_symlink(elsewhere.path(), folders.pipe + "/card/a");
  driver.set("protocol", 3);
  programs.signal(processes().at(0).pid, SIGKILL);
  while (daemon->isRunning()) clock.sleepFor(options.pollInterval, {});
  ASSERT_TRUE(daemon->ensure({}).ok());
  EXPECT_EQ(daemon->version(), 3);
  EXPECT_TRUE(std::filesystem::exists(folders.namespaces));
  EXPECT_FALSE(std::filesystem::exists(folders.pipe + "/card"));
  EXPECT_TRUE(std::filesystem::exists(elsewhere.path() + "/control"));
  std::filesystem::create_directories(folders.pipe + "/card/b");
  std::ofstream(folders.pipe + "/card/b/control") << "";
  programs.signal(processes().at(0).pid, SIGKILL);
  while (daemon->isRunning()) clock.sleepFor(options.pollInterval, {});
  ASSERT_TRUE(daemon->ensure({}).ok());
  EXPECT_TRUE(std::filesystem::exists(folders.pipe + "/card/b")) << "running containers have mounts of it";
  EXPECT_FALSE(std::filesystem::exists(folders.pipe + "/card/b/control"));
  ASSERT_TRUE(daemon->end(isUnused, {}).ok());
  EXPECT_FALSE(std::filesystem::exists(folders.namespaces));
}

TEST_F(MpsDaemonTest, ADaemonThatAnotherAgentBeganToEndIsReplaced) {
  ASSERT_TRUE(daemon->ensure({}).ok());
  const auto pid = processes().at(0).pid;
  auto record = records.read(card).value().value();
  record.isEnding = true;  // another agent was killed after this write
  ASSERT_TRUE(records.write(record).ok());
  ASSERT_TRUE(daemon->read().ok());
  EXPECT_FALSE(daemon->isRunning());
  EXPECT_EQ(daemon->endedPid(), 0);
  const auto ensured = daemon->ensure({});
  ASSERT_TRUE(ensured.ok()) << ensured.str();
  ASSERT_EQ(processes().size(), 1u);
  EXPECT_NE(processes().at(0).pid, pid);
  EXPECT_FALSE(records.read(card).value()->isEnding);
  ASSERT_TRUE(daemon->end(isUnused, {}).ok());
  EXPECT_EQ(mode(), "Default");
}

TEST_F(MpsDaemonTest, ACardThatIsUsedAgainKeepsItsDaemon) {
  ASSERT_TRUE(daemon->ensure({}).ok());
  ASSERT_TRUE(daemon->end([] { return false; }, {}).ok());
  EXPECT_TRUE(daemon->isRunning());
  EXPECT_EQ(mode(), "Exclusive_Process");
}

TEST_F(MpsDaemonTest, OneAgentWorksOnACard) {
  options.lockTimeout = options.pollInterval;
  auto other = records.tryLock(card);
  ASSERT_TRUE(other.ok() && *other) << other.status().str();
  EXPECT_THAT(daemon->ensure({}).message(),
              HasSubstr("another agent has been working on the MPS daemon of card GPU-A"));
  EXPECT_EQ(mode(), "Default");
  other->reset();
  EXPECT_TRUE(daemon->ensure({}).ok());
}

TEST_F(MpsDaemonTest, TwoAgentsHaveOneDaemon) {
  MpsDaemon other(card, programs, commands, records, clock, options);
  ASSERT_TRUE(daemon->ensure({}).ok());
  ASSERT_TRUE(other.ensure({}).ok());
  EXPECT_EQ(processes().size(), 1u);
  programs.signal(processes().at(0).pid, SIGKILL);
  while (daemon->isRunning()) clock.sleepFor(options.pollInterval, {});
  ASSERT_TRUE(other.ensure({}).ok());
  ASSERT_TRUE(daemon->ensure({}).ok());
  EXPECT_EQ(processes().size(), 1u);
  ASSERT_TRUE(other.end(isUnused, {}).ok());
  ASSERT_TRUE(daemon->end(isUnused, {}).ok());
  EXPECT_TRUE(processes().empty());
  EXPECT_EQ(mode(), "Default");
}

TEST_F(MpsDaemonTest, AFolderThatLeadsElsewhereIsRefused) {
  std::filesystem::create_directories(state + "/mps-log");
  std::filesystem::create_directory_symlink("/tmp", folders.log);
  EXPECT_THAT(daemon->ensure({}).message(), HasSubstr("/mps-log/GPU-A is no folder of the agent's user"));
  EXPECT_EQ(mode(), "Default");
}

TEST_F(MpsDaemonTest, TheNewestInterfaceOfTheDriverIsUsed) {
  ASSERT_TRUE(daemon->ensure({}).ok());
  EXPECT_EQ(daemon->version(), 3);
  ASSERT_TRUE(daemon->end(isUnused, {}).ok());
  driver.set("protocol", 2);
  ASSERT_TRUE(daemon->ensure({}).ok());
  EXPECT_EQ(daemon->version(), 2);
  ASSERT_TRUE(daemon->end(isUnused, {}).ok());
  driver.set("multiuser", false);
  ASSERT_TRUE(daemon->ensure({}).ok());
  EXPECT_EQ(daemon->version(), 2);
}

TEST_F(MpsDaemonTest, ADaemonThatIgnoresQuitIsKilledWithItsServers) {
  options.endTimeout = std::chrono::milliseconds(200);
  driver.set("ignoresQuit", true);
  ASSERT_TRUE(daemon->ensure({}).ok());
  ASSERT_TRUE(commands.control(card, {"server", "create", "card"}).ok());
  EXPECT_EQ(processes().size(), 2u);
  ASSERT_TRUE(daemon->end(isUnused, {}).ok());
  EXPECT_TRUE(areProcessesGone(folders.pipe));
}

TEST_F(MpsDaemonTest, AWholeSystemAsDriverRootIsRefused) {
  std::filesystem::create_directories(driver.root() + "/usr/lib64");
  for (const char* name : {"libcuda.so.1", "libc.so.6"}) std::ofstream(driver.root() + "/usr/lib64/" + name) << "";
  EXPECT_THAT(daemon->ensure({}).message(), HasSubstr("which is a whole system with its own C library"));
}

}  // namespace
}  // namespace egpu::agent::sharing
