// The daemon of one card with real processes: scripts take the place of NVIDIA's programs.
#include "controller/agent/sharing/mps_daemon.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include "controller/agent/sharing/mps_processes.h"
#include "controller/base/clock.h"
#include "controller/base/files.h"
#include "tests/support/scratch_folder.h"

namespace egpu::agent::sharing {
namespace {

using ::testing::HasSubstr;

/// Runs programs as on a node, but without mounts, which need rights.
class ProgramsWithoutMounts final : public HostPrograms {
 public:
  base::Result<std::string> run(const HostProgram& program, std::chrono::milliseconds timeout) override {
    return node_.run(program, timeout);
  }
  base::Result<int64_t> startDaemon(const HostProgram& program, const DaemonPaths& paths) override {
    return node_.startDaemon(program, {"", "", paths.log});
  }
  base::Result<bool> hasTmpfs(const std::string&) override { return false; }
  base::Status mountTmpfs(const std::string&, const std::string&) override { return base::Status::okay(); }
  base::Status unmount(const std::string&) override { return base::Status::okay(); }
  void signal(int64_t pid, int number) override { node_.signal(pid, number); }

 private:
  NodePrograms node_{{false, "/proc", ""}};
};

/// The compute mode is in the file `mode` of the driver root.
constexpr const char* kSmi = R"(#!/bin/sh
mode=${0%/usr/bin/*}/mode
if [ "$3" = -c ]; then echo "$4" > "$mode"; else cat "$mode"; fi
)";
/// With -f a daemon, otherwise a client that ends the daemon.
constexpr const char* kControl = R"script(#!/bin/sh
pipe=$CUDA_MPS_PIPE_DIRECTORY
if [ "$1" != -f ]; then
  read -r command
  [ "$command" = quit ] && kill "$(cat "$pipe/nvidia-cuda-mps-control.pid")" && rm "$pipe/control"
  exit
fi
if [ -e "${0%/usr/bin/*}/broken" ]; then echo "no such card"; exit 1; fi
echo $$ > "$pipe/nvidia-cuda-mps-control.pid"
echo > "$pipe/control"
while :; do sleep 0.05; done
)script";

class MpsDaemonTest : public ::testing::Test {
 protected:
  MpsDaemonTest() {
    script("nvidia-smi", kSmi);
    script("nvidia-cuda-mps-control", kControl);
    std::ofstream(root + "/mode") << "Default\n";
    options.boot = "boot";
    daemon = std::make_unique<MpsDaemon>(card, programs, commands, records, clock, options);
  }
  ~MpsDaemonTest() override {
    for (const auto& each : mpsProcesses("/proc", folders.pipe)) programs.signal(each.pid, SIGKILL);
  }
  void script(const std::string& name, const char* text) {
    std::filesystem::create_directories(root + "/usr/bin");
    std::ofstream(root + "/usr/bin/" + name) << text;
    std::filesystem::permissions(root + "/usr/bin/" + name, std::filesystem::perms::owner_all);
  }
  std::string mode() const { return *base::readFile(root + "/mode"); }
  std::vector<MpsProcess> processes() const { return mpsProcesses("/proc", folders.pipe); }

  support::ScratchFolder scratch;
  const std::string card = "GPU-A", root = scratch.path() + "/driver", state = scratch.path() + "/state";
  ProgramsWithoutMounts programs;
  MpsCommands commands{programs, {state, "", root}};
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
  EXPECT_EQ(mode(), "EXCLUSIVE_PROCESS\n");
  ASSERT_EQ(processes().size(), 1u);
  EXPECT_TRUE(processes()[0].isStartedByAgent);
  EXPECT_FALSE(daemon->isServedByOperator());
  const auto ended = daemon->end(isUnused, {});
  ASSERT_TRUE(ended.ok()) << ended.str();
  EXPECT_EQ(mode(), "DEFAULT\n");
  EXPECT_TRUE(processes().empty());
  EXPECT_FALSE(daemon->hasRecord());
  EXPECT_FALSE(std::filesystem::exists(folders.pipe + "/control"));
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
  std::ofstream(root + "/broken") << "";
  EXPECT_THAT(daemon->ensure({}).message(), HasSubstr("the MPS daemon of card GPU-A ended at its start: no such card"));
  EXPECT_EQ(daemon->endedPid(), 0);
  EXPECT_TRUE(daemon->hasRecord());
  ASSERT_TRUE(daemon->end(isUnused, {}).ok());
  EXPECT_EQ(mode(), "DEFAULT\n");
}

TEST_F(MpsDaemonTest, ACardThatIsUsedAgainKeepsItsDaemon) {
  ASSERT_TRUE(daemon->ensure({}).ok());
  ASSERT_TRUE(daemon->end([] { return false; }, {}).ok());
  EXPECT_TRUE(daemon->isRunning());
  EXPECT_EQ(mode(), "EXCLUSIVE_PROCESS\n");
}

TEST_F(MpsDaemonTest, OneAgentWorksOnACard) {
  options.lockTimeout = options.pollInterval;
  auto other = records.tryLock(card);
  ASSERT_TRUE(other.ok() && *other) << other.status().str();
  EXPECT_THAT(daemon->ensure({}).message(),
              HasSubstr("another agent has been working on the MPS daemon of card GPU-A"));
  EXPECT_EQ(mode(), "Default\n");
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
  EXPECT_EQ(mode(), "DEFAULT\n");
}

TEST_F(MpsDaemonTest, AFolderThatLeadsElsewhereIsRefused) {
  std::filesystem::create_directories(state + "/mps-log");
  std::filesystem::create_directory_symlink("/tmp", folders.log);
  EXPECT_THAT(daemon->ensure({}).message(), HasSubstr("/mps-log/GPU-A is no folder of the agent's user"));
  EXPECT_EQ(mode(), "Default\n");
}

TEST_F(MpsDaemonTest, AWholeSystemAsDriverRootIsRefused) {
  std::filesystem::create_directories(root + "/usr/lib64");
  for (const char* name : {"libcuda.so.1", "libc.so.6"}) std::ofstream(root + "/usr/lib64/" + name) << "";
  EXPECT_THAT(daemon->ensure({}).message(), HasSubstr("which is a whole system with its own C library"));
}

}  // namespace
}  // namespace egpu::agent::sharing
