#include "controller/agent/sharing/host_programs.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "controller/agent/sharing/mps_processes.h"
#include "controller/base/files.h"
#include "tests/support/scratch_folder.h"

namespace egpu::agent::sharing {
namespace {

using ::testing::HasSubstr;

class HostProgramsTest : public ::testing::Test {
 protected:
  static HostProgram script(const std::string& text) { return {"/bin/sh", {"-c", text}, {"NAME=value"}, ""}; }
  /// Waits until the file has content; a daemon writes it.
  static std::string contentOf(const std::string& path) {
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(5)))
      if (const auto text = base::readFile(path); text.ok() && text->find('\n') != std::string::npos) return *text;
  }

  static bool mayLowerOomScore() {
    std::ofstream file("/proc/self/oom_score_adj");
    file << -1 << std::flush;
    const bool may = file.good();
    if (may) std::ofstream("/proc/self/oom_score_adj") << 0;
    return may;
  }

  support::ScratchFolder scratch;
  NodePrograms programs{{false, "/proc", ""}};
  const std::chrono::seconds timeout{30};
};

TEST_F(HostProgramsTest, RunReturnsTheOutputOfAProgramWithItsInputAndEnvironment) {
  auto program = script("read word; echo $word $NAME; echo error >&2");
  program.input = "quit\n";
  const auto output = programs.run(program, timeout);
  ASSERT_TRUE(output.ok()) << output.status().str();
  EXPECT_EQ(*output, "quit value\nerror\n");
}

TEST_F(HostProgramsTest, RunReportsAFailureWithTheOutput) {
  const auto status = programs.run(script("echo no card; exit 3"), timeout).status();
  EXPECT_EQ(status.message(), "/bin/sh exited with status 3: no card");
  EXPECT_THAT(programs.run(script("kill -9 $$"), timeout).status().message(), HasSubstr("/bin/sh was killed"));
  const auto missing = programs.run({"/does/not/exist", {}, {}, ""}, timeout).status();
  EXPECT_EQ(missing.message(), "/does/not/exist: the program can't be executed: No such file or directory");
}

TEST_F(HostProgramsTest, RunKillsAProgramThatDoesNotEnd) {
  const auto status = programs.run(script("sleep 1000"), std::chrono::milliseconds(50)).status();
  EXPECT_THAT(status.message(), HasSubstr("/bin/sh did not end within"));
}

TEST_F(HostProgramsTest, ADaemonIsNoChildAndInItsOwnSession) {
  const auto file = scratch.path() + "/out", log = scratch.path() + "/log";
  const auto pid = programs.startDaemon(script("echo $$ > " + file + "; echo started; exec sleep 1000"), {"", "", log});
  ASSERT_TRUE(pid.ok()) << pid.status().str();
  EXPECT_EQ(contentOf(file), std::to_string(*pid) + "\n");
  EXPECT_EQ(contentOf(log), "started\n");
  EXPECT_NE(startTimeOf("/proc", *pid), 0u);
  EXPECT_EQ(::getsid(static_cast<pid_t>(*pid)), *pid);
  EXPECT_NE(::getsid(static_cast<pid_t>(*pid)), ::getsid(0));
  if (mayLowerOomScore()) {
    EXPECT_EQ(contentOf("/proc/" + std::to_string(*pid) + "/oom_score_adj"), "-997\n");
  }
  programs.signal(*pid, SIGKILL);
  while (startTimeOf("/proc", *pid) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

/// The mounts of this test are those of a daemon on a node. They need the rights of root.
TEST_F(HostProgramsTest, ADaemonHasItsSharedMemoryAndFollowsNoLinksOfContainers) {
  const auto shared = scratch.path() + "/shm", sockets = scratch.path() + "/pipe", log = scratch.path() + "/log";
  for (const auto& folder : {shared, sockets}) std::filesystem::create_directory(folder);
  if (const auto mounted = programs.mountTmpfs(shared, "mode=1777,size=1m"); !mounted.ok())
    GTEST_SKIP() << mounted.str();
  EXPECT_TRUE(*programs.hasTmpfs(shared));
  EXPECT_TRUE(programs.mountTmpfs(shared, "mode=1777,size=1m").ok()) << "a second mount changes nothing";
  std::filesystem::create_symlink(scratch.path() + "/outside", sockets + "/link");
  const auto pid =
      programs.startDaemon(script("echo text > " + sockets + "/link; echo text > /dev/shm/file; echo text > " +
                                  sockets + "/file; echo done"),
                           {shared, sockets, log});
  ASSERT_TRUE(pid.ok()) << pid.status().str();
  EXPECT_THAT(contentOf(log), HasSubstr("/link: Too many levels of symbolic links"));
  while (startTimeOf("/proc", *pid) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(std::filesystem::exists(scratch.path() + "/outside"));
  EXPECT_TRUE(std::filesystem::exists(sockets + "/file"));
  EXPECT_TRUE(std::filesystem::exists(shared + "/file"));
  ASSERT_TRUE(programs.unmount(shared).ok());
  ASSERT_TRUE(programs.unmount(shared).ok());
  EXPECT_FALSE(*programs.hasTmpfs(shared));
  EXPECT_FALSE(std::filesystem::exists(shared + "/file"));
}

TEST_F(HostProgramsTest, ADaemonThatCantBeExecutedIsReported) {
  const auto status = programs.startDaemon({"/does/not/exist", {}, {}, ""}, {"", "", scratch.path() + "/log"}).status();
  EXPECT_THAT(status.message(), HasSubstr("the program can't be executed"));
}

}  // namespace
}  // namespace egpu::agent::sharing
