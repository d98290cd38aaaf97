// Kills an agent with SIGKILL before and after each of its steps on a card, and at random times. The next agent must
// leave no process, no tmpfs and no changed compute mode.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <random>

#include "controller/agent/sharing/mps_daemon.h"
#include "controller/agent/sharing/mps_limits.h"
#include "controller/base/clock.h"
#include "tests/agent/sharing/fake_driver.h"

namespace egpu::agent::sharing {
namespace {

/// Kills this process at a step. A step is the begin or the end of a call.
class KillingPrograms final : public HostPrograms {
  void countDown() {
    if (left_-- == 0) ::kill(::getpid(), SIGKILL);
  }
  template <class F>
  auto step(const F& call) {
    countDown();
    auto out = call();
    countDown();
    return out;
  }

 public:
  KillingPrograms(HostPrograms& programs, int at) : programs_(programs), left_(at) {}
  base::Result<std::string> run(const HostProgram& program, std::chrono::milliseconds timeout) override {
    return step([&] { return programs_.run(program, timeout); });
  }
  base::Result<int64_t> startDaemon(const HostProgram& program, const DaemonPaths& paths) override {
    return step([&] { return programs_.startDaemon(program, paths); });
  }
  base::Result<bool> hasTmpfs(const std::string& folder) override {
    return step([&] { return programs_.hasTmpfs(folder); });
  }
  base::Status mountTmpfs(const std::string& folder, const std::string& options) override {
    return step([&] { return programs_.mountTmpfs(folder, options); });
  }
  base::Status unmount(const std::string& folder) override {
    return step([&] { return programs_.unmount(folder); });
  }
  void signal(int64_t pid, int number) override {
    step([&] {
      programs_.signal(pid, number);
      return 0;
    });
  }

 private:
  HostPrograms& programs_;
  int left_;
};

class MpsCrashTest : public ::testing::TestWithParam<int> {
 protected:
  MpsCrashTest() {
    driver.set("protocol", GetParam());
    options.boot = "boot";
    options.pollInterval = std::chrono::milliseconds(5);
  }
  ~MpsCrashTest() override {
    for (const auto& each : mpsProcesses("/proc", folders.pipe)) programs.signal(each.pid, SIGKILL);
    (void)programs.unmount(folders.sharedMemory);
  }
  /// An agent that makes a daemon with limits serve the card.
  base::Status start(HostPrograms& with) {
    const MpsCommands commands(with, settings);
    MpsDaemon daemon(card, with, commands, records, clock, options);
    if (auto s = daemon.ensure({}); !s.ok()) return s;
    return MpsLimits(commands).set(card, daemon.version(), {{"uid-1", {25, 1024}}});
  }
  /// An agent that restores the card.
  base::Status end(HostPrograms& with) {
    const MpsCommands commands(with, settings);
    return MpsDaemon(card, with, commands, records, clock, options).end([] { return true; }, {});
  }
  /// Runs an agent in a process that is killed. True if it ended before.
  bool killedAt(int step, const std::function<base::Status(HostPrograms&)>& agent) {
    const pid_t child = ::fork();
    if (child == 0) {
      KillingPrograms killing(programs, step);
      ::_exit(agent(killing).ok() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "step " << step;
    return WIFEXITED(status);
  }
  void killAfter(std::chrono::microseconds time, const std::function<base::Status(HostPrograms&)>& agent) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(agent(programs).ok() ? 0 : 1);
    std::this_thread::sleep_for(time);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // its children end, or become daemons
  }
  std::size_t daemons() const {
    std::size_t out = 0;
    for (const auto& each : mpsProcesses("/proc", folders.pipe)) out += each.isDaemon ? 1 : 0;
    return out;
  }
  /// The next agent restores the card.
  void expectNothingLeft(const std::string& after) {
    const auto ended = end(programs);
    EXPECT_TRUE(ended.ok()) << after << ": " << ended.str();
    EXPECT_TRUE(areProcessesGone(folders.pipe)) << after;
    EXPECT_FALSE(*programs.hasTmpfs(folders.sharedMemory)) << after;
    EXPECT_EQ(driver.modeOf(card), "Default") << after;
    EXPECT_TRUE(records.cards().empty()) << after;
    EXPECT_TRUE(!std::filesystem::exists(folders.pipe) || std::filesystem::is_empty(folders.pipe)) << after;
  }
  /// The next agent serves the card with one daemon.
  void expectOneDaemon(const std::string& after) {
    const auto started = start(programs);
    EXPECT_TRUE(started.ok()) << after << ": " << started.str();
    EXPECT_EQ(daemons(), 1u) << after;
    EXPECT_EQ(driver.modeOf(card), "Exclusive_Process") << after;
  }

  support::ScratchFolder scratch;
  const std::string card = "GPU-A", state = scratch.path() + "/state";
  FakeDriver driver{scratch.path() + "/driver"};
  LocalPrograms programs;
  const MpsCommandsOptions settings{state, "", driver.root()};
  DaemonRecords records{state + "/mps-daemons"};
  base::SystemClock clock;
  MpsDaemonOptions options;
  const MpsFolders folders = mpsFoldersOf(state, card);
  const std::function<base::Status(HostPrograms&)> starting = [this](auto& with) { return start(with); };
  const std::function<base::Status(HostPrograms&)> ending = [this](auto& with) { return end(with); };
};

TEST_P(MpsCrashTest, ANextAgentRestoresTheCardAfterAKillAtEachStepOfAStart) {
  int step = 0;
  for (; !killedAt(step, starting); ++step) expectNothingLeft("start, step " + std::to_string(step));
  EXPECT_GT(step, 10) << "number of steps";
  expectNothingLeft("start");
}

TEST_P(MpsCrashTest, ANextAgentServesTheCardAfterAKillAtEachStepOfAStart) {
  for (int step = 0; !killedAt(step, starting); ++step) {
    expectOneDaemon("start, step " + std::to_string(step));
    expectNothingLeft("start, step " + std::to_string(step));
  }
}

TEST_P(MpsCrashTest, ANextAgentRestoresTheCardAfterAKillAtEachStepOfAnEnd) {
  int step = 0;
  for (;; ++step) {
    ASSERT_TRUE(start(programs).ok());
    const bool isComplete = killedAt(step, ending);
    expectNothingLeft("end, step " + std::to_string(step));
    if (isComplete) break;
  }
  EXPECT_GT(step, 5) << "number of steps";
}

TEST_P(MpsCrashTest, ANextAgentServesTheCardAfterAKillAtEachStepOfAnEnd) {
  for (int step = 0;; ++step) {
    ASSERT_TRUE(start(programs).ok());
    if (killedAt(step, ending)) break;
    expectOneDaemon("end, step " + std::to_string(step));
  }
}

TEST_P(MpsCrashTest, ANextAgentRestoresTheCardAfterAKillAtARandomTime) {
  std::minstd_rand random(GetParam());
  std::uniform_int_distribution<int> upTo(0, 400'000);
  for (int round = 0; round < 12; ++round) {
    const std::chrono::microseconds time(upTo(random));
    killAfter(time, starting);
    killAfter(time / 2, round % 2 == 0 ? ending : starting);
    expectNothingLeft("round " + std::to_string(round));
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, MpsCrashTest, ::testing::Values(2, 3));

}  // namespace
}  // namespace egpu::agent::sharing
