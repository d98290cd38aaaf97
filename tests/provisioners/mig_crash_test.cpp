// The plugin's process dies before and after every change of instances and every write of a record, and another one
// takes over: no instance is left without a record, none is lost, and a foreign one is never touched.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>

#include "tests/provisioners/mig_fixture.h"

namespace {

/// Number of the step at which this process dies, from 1; 0 = it is immortal.
std::atomic<int> deathAt{0};
std::atomic<int> steps{0};

void pass() {
  if (deathAt > 0 && ++steps == deathAt) ::kill(::getpid(), SIGKILL);
}

}  // namespace

extern "C" {
/// The fake NVML calls it before and after each change of instances.
__attribute__((visibility("default"))) void egpuTestStep(const char* /*function*/) { pass(); }

// These replace the C library's functions in the plugin, which is loaded into this process.
__attribute__((visibility("default"))) int rename(const char* from, const char* to) noexcept {
  pass();
  const auto result = static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
  pass();
  return result;
}
__attribute__((visibility("default"))) int unlink(const char* path) noexcept {
  pass();
  const auto result = static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
  pass();
  return result;
}
__attribute__((visibility("default"))) int fsync(int fd) {
  pass();
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
}

namespace egpu::plugin::testing {
namespace {

using ::testing::ElementsAre;

constexpr int kMaxSteps = 200;

class MigCrashTest : public MigTest {
 protected:
  /// Runs `life` in a process that dies at that step. Returns false if it ended before it.
  static bool diesAt(int step, const std::function<void()>& life) {
    const pid_t child = ::fork();
    if (child == 0) {
      steps = 0;
      deathAt = step;
      life();
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0) << status;
    return WIFSIGNALED(status);
  }
  /// Lets a process die at each step of `life`, which begins after `before`, and calls `recover` after each death.
  /// Returns the number of steps.
  int forEachDeath(const std::function<void()>& before, const std::function<void()>& life,
                   const std::function<void()>& recover) {
    for (int step = 1; step < kMaxSteps; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      fake.reboot();
      std::filesystem::remove_all(state.path() + "/mig");
      addForeign(6);
      before();
      const bool died = diesAt(step, life);
      if (!died) return step - 1;
      recover();
      if (HasFailure()) return step;
    }
    ADD_FAILURE() << "too many steps";
    return kMaxSteps;
  }
  void stageOk() { ASSERT_TRUE(plugin->stage(wanted).ok()); }
  void unstageOk() { ASSERT_TRUE(plugin->unstage("a").ok()); }
  void expectStaged() {
    const auto reply = plugin->stage(wanted);
    EXPECT_TRUE(reply.ok()) << reply.message;
    EXPECT_THAT(placements(), ElementsAre("0:1:1", "2:1:1", "6:1:1"));
    EXPECT_THAT(records(), ElementsAre("a"));
    EXPECT_TRUE(plugin->mount(wanted, "ns/pod", "main").reply.ok());
    EXPECT_EQ(discovered().mig[0].starts.bits, 0x3f) << "only the foreign one is foreign";
  }
  void expectNothing() {
    const auto reply = plugin->unstage("a");
    EXPECT_TRUE(reply.ok()) << reply.message;
    EXPECT_THAT(placements(), ElementsAre("6:1:1")) << "the foreign instance stays";
    EXPECT_THAT(records(), ElementsAre());
  }

  const DeviceRequest wanted = device("a", "1g.5gb", 0x05);
};

TEST_F(MigCrashTest, StageContinuesAfterEachDeath) {
  const int steps = forEachDeath([] {}, [&] { plugin->stage(wanted); }, [&] { expectStaged(); });
  EXPECT_GE(steps, 2 * (4 + 5)) << "two instances with two changes each, and five records";
}

TEST_F(MigCrashTest, UnstageRemovesWhatADeadStageLeft) {
  forEachDeath([] {}, [&] { plugin->stage(wanted); }, [&] { expectNothing(); });
}

TEST_F(MigCrashTest, UnstageContinuesAfterEachDeath) {
  const int steps = forEachDeath([&] { stageOk(); }, [&] { plugin->unstage("a"); }, [&] { expectNothing(); });
  EXPECT_GE(steps, 2 * (4 + 1)) << "two instances with two changes each, and the record";
}

TEST_F(MigCrashTest, StageReplacesWhatADeadUnstageLeft) {
  forEachDeath([&] { stageOk(); }, [&] { plugin->unstage("a"); }, [&] { expectStaged(); });
}

TEST_F(MigCrashTest, ARebootAfterEachDeathLosesNothing) {
  forEachDeath([] {}, [&] { plugin->stage(wanted); },
               [&] {
                 fake.reboot();
                 addForeign(6);
                 expectStaged();
                 fake.reboot();
                 addForeign(6);
                 expectNothing();
               });
}

TEST_F(MigCrashTest, ADeathWhileOthersAreStagedHarmsThemNot) {
  const auto other = device("b", "2g.10gb", 0x30);
  forEachDeath([&] { ASSERT_TRUE(plugin->stage(other).ok()); }, [&] { plugin->stage(wanted); },
               [&] {
                 EXPECT_TRUE(plugin->unstage("a").ok());
                 EXPECT_THAT(placements(), ElementsAre("4:2:1", "6:1:1"));
                 EXPECT_EQ(plugin->stage(other).outcome, ReplyCode::noChange);
               });
}

}  // namespace
}  // namespace egpu::plugin::testing
