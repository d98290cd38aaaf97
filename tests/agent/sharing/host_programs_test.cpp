#include "controller/agent/sharing/host_programs.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
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
  const auto pid = programs.startDaemon(script("echo $$ > " + file + "; echo started; exec sleep 1000"), "", log);
  ASSERT_TRUE(pid.ok()) << pid.status().str();
  EXPECT_EQ(contentOf(file), std::to_string(*pid) + "\n");
  EXPECT_EQ(contentOf(log), "started\n");
  EXPECT_NE(startTimeOf("/proc", *pid), 0u);
  EXPECT_EQ(::getsid(static_cast<pid_t>(*pid)), *pid);
  EXPECT_NE(::getsid(static_cast<pid_t>(*pid)), ::getsid(0));
  programs.signal(*pid, SIGKILL);
  while (startTimeOf("/proc", *pid) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

TEST_F(HostProgramsTest, ADaemonThatCantBeExecutedIsReported) {
  const auto status = programs.startDaemon({"/does/not/exist", {}, {}, ""}, "", scratch.path() + "/log").status();
  EXPECT_THAT(status.message(), HasSubstr("the program can't be executed"));
}

}  // namespace
}  // namespace egpu::agent::sharing
