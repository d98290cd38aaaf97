// The process of the plugin gpushare dies before and after every change of the limiter's files, and another one takes
// over: no container gets a device without its limits, and nothing is left of an ended device.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>

#include "provisioners/gpushare/limiter/page.h"
#include "tests/provisioners/plugin_fixture.h"

namespace {

/// Number of the step at which this process dies, from 1; 0 = it is immortal.
int deathAt = 0;
int steps = 0;

void pass() {
  if (deathAt > 0 && ++steps == deathAt) ::kill(::getpid(), SIGKILL);
}

/// Calls the kernel between two steps.
template <class... Arguments>
int between(long number, Arguments... arguments) {
  pass();
  const auto result = static_cast<int>(::syscall(number, arguments...));
  pass();
  return result;
}

}  // namespace

// These replace the C library's functions in the plugin, which is loaded into this process.
#define EGPU_STEP extern "C" __attribute__((visibility("default"))) int
EGPU_STEP mkdir(const char* path, mode_t mode) noexcept { return between(SYS_mkdirat, AT_FDCWD, path, mode); }
EGPU_STEP rename(const char* from, const char* to) noexcept {
  return between(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
EGPU_STEP unlink(const char* path) noexcept { return between(SYS_unlinkat, AT_FDCWD, path, 0); }
EGPU_STEP rmdir(const char* path) noexcept { return between(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR); }
EGPU_STEP unlinkat(int folder, const char* path, int flags) noexcept {
  return between(SYS_unlinkat, folder, path, flags);
}
EGPU_STEP remove(const char* path) noexcept {
  const int result = unlink(path);
  return result != 0 && errno == EISDIR ? rmdir(path) : result;
}
EGPU_STEP fsync(int fd) { return between(SYS_fsync, fd); }

namespace egpu::plugin::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxSteps = 200;
const std::string kInstalled = EGPU_PROVISIONER_DIR "/../limiter/";

class LimiterCrashTest : public PluginTest {
 protected:
  LimiterCrashTest() : PluginTest("gpushare") {}
  void SetUp() override {
    PluginTest::SetUp();
    if (!fs::exists(kInstalled + "libcuda.so.1")) GTEST_SKIP() << "the limiter is for x86-64 only";
    ASSERT_NE(mkdtemp(root.data()), nullptr);
    ASSERT_EQ(setenv("ELASTICGPU_STATE_DIR", root.c_str(), 1), 0);
  }
  void TearDown() override {
    std::error_code error;
    fs::remove_all(root, error);
  }
  /// Runs `life` in a process that dies at that step. Returns false if it ended before it.
  static bool diesAt(int step, const std::function<void()>& life) {
    const pid_t child = ::fork();
    if (child == 0) {
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
      fs::remove_all(root + "/limiter");
      before();
      if (!diesAt(step, life)) return step - 1;
      expectCompleteLibraries();
      recover();
      if (HasFailure()) return step;
    }
    ADD_FAILURE() << "too many steps";
    return kMaxSteps;
  }
  /// A container may map a library as soon as it has its name.
  void expectCompleteLibraries() const {
    if (!fs::exists(root + "/limiter/lib")) return;
    for (const auto& folder : fs::directory_iterator(root + "/limiter/lib"))
      for (const char* name : {"libcuda.so.1", "libnvidia-ml.so.1"})
        if (const auto library = folder.path() / name; fs::exists(library)) {
          EXPECT_EQ(fs::file_size(library), fs::file_size(kInstalled + name)) << library;
        }
  }
  void expectStaged() {
    EXPECT_TRUE(plugin->stage(wanted).ok());
    EXPECT_TRUE(plugin->mount(wanted, "ns/pod", "main").reply.ok());
    egpu_limiter_limits limits{};
    std::ifstream file(folder() + "/limits", std::ios::binary);
    ASSERT_TRUE(file.read(reinterpret_cast<char*>(&limits), sizeof limits));
    egpu_limiter_bank bank{};
    ASSERT_EQ(egpu_limiter_get(&limits, &bank), 0);
    ASSERT_EQ(bank.cards, 1u);
    EXPECT_EQ(bank.card[0].memory, static_cast<uint64_t>(kGiB));
    EXPECT_EQ(bank.card[0].cores, 100u);
    EXPECT_EQ(fs::file_size(folder() + "/usage"), sizeof(egpu_limiter_usage));
    expectCompleteLibraries();
  }
  void expectNothing() {
    const auto reply = plugin->unstage("a");
    EXPECT_TRUE(reply.ok() || reply.outcome == ReplyCode::noChange) << reply.message;
    EXPECT_FALSE(fs::exists(folder()));
  }
  std::string folder() const { return root + "/limiter/devices/a"; }

  std::string root = ::testing::TempDir() + "/limiter-crash-XXXXXX";
  const DeviceRequest wanted = device("a", {card(0, 100, kGiB)}, {{"isolation", "limiter"}});
};

TEST_F(LimiterCrashTest, StageContinuesAfterEachDeath) {
  const int count = forEachDeath([] {}, [&] { plugin->stage(wanted); }, [&] { expectStaged(); });
  EXPECT_GE(count, 2 * 2 * 5) << "two libraries and three files, each synced and renamed";
}

TEST_F(LimiterCrashTest, UnstageRemovesWhatADeadStageLeft) {
  forEachDeath([] {}, [&] { plugin->stage(wanted); }, [&] { expectNothing(); });
}

TEST_F(LimiterCrashTest, UnstageContinuesAfterEachDeath) {
  const int count = forEachDeath([&] { ASSERT_TRUE(plugin->stage(wanted).ok()); }, [&] { plugin->unstage("a"); },
                                 [&] { expectNothing(); });
  EXPECT_GE(count, 2 * 4) << "three files and their folder";
}

TEST_F(LimiterCrashTest, StageReplacesWhatADeadUnstageLeft) {
  forEachDeath([&] { ASSERT_TRUE(plugin->stage(wanted).ok()); }, [&] { plugin->unstage("a"); },
               [&] { expectStaged(); });
}

}  // namespace
}  // namespace egpu::plugin::testing
