#include "controller/agent/sharing/mps_processes.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/agent/sharing/fake_programs.h"

namespace egpu::agent::sharing {
namespace {

class MpsProcessesTest : public ::testing::Test {
 protected:
  MpsProcessesTest() { std::filesystem::create_directories(pipe); }
  void process(int64_t pid, const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
    writeProcess(proc, pid, arguments, environment, 500);
  }

  support::ScratchFolder scratch;
  const std::string proc = scratch.path() + "/proc", pipe = scratch.path() + "/mps/GPU-A";
  const std::string variable = "CUDA_MPS_PIPE_DIRECTORY=" + pipe;
};

TEST_F(MpsProcessesTest, DaemonsAndServersOfTheFolderAreFound) {
  process(1, {"/usr/bin/nvidia-cuda-mps-control", "-d"}, {"A=b", variable});
  process(2, {"nvidia-cuda-mps-server"}, {variable, "ELASTICGPU_MPS_DAEMON=GPU-A"});
  process(3, {"/usr/bin/nvidia-cuda-mps-control", "-f"}, {variable + "/../GPU-A"});
  auto found = mpsProcesses(proc, pipe);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  ASSERT_EQ(found.size(), 3u);
  EXPECT_TRUE(found[0].isDaemon);
  EXPECT_FALSE(found[0].isStartedByAgent);
  EXPECT_FALSE(found[1].isDaemon);
  EXPECT_TRUE(found[1].isStartedByAgent);
  EXPECT_EQ(found[2].pid, 3);
}

TEST_F(MpsProcessesTest, OtherProcessesAreNot) {
  process(1, {"/usr/bin/nvidia-cuda-mps-control"}, {variable});  // sends a command
  process(2, {"/usr/bin/nvidia-cuda-mps-control", "-d"}, {"CUDA_MPS_PIPE_DIRECTORY=" + scratch.path()});
  process(3, {"/usr/bin/nvidia-cuda-mps-control", "-d"}, {});
  process(4, {"python3"}, {variable});
  EXPECT_TRUE(mpsProcesses(proc, pipe).empty());
}

TEST_F(MpsProcessesTest, AProgramOfAContainerIsNoDaemon) {
  const auto inNamespace = [&](const std::string& process, const std::string& name) {
    std::filesystem::create_directories(proc + "/" + process + "/ns");
    std::filesystem::create_symlink(name, proc + "/" + process + "/ns/pid");
  };
  for (const int64_t pid : {1, 2}) process(pid, {"/usr/bin/nvidia-cuda-mps-control", "-f"}, {variable});
  inNamespace("self", "pid:[1]");
  inNamespace("1", "pid:[1]");
  inNamespace("2", "pid:[2]");
  const auto found = mpsProcesses(proc, pipe);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].pid, 1);
}

TEST_F(MpsProcessesTest, ProcessesThatEndMeanwhileAreNoError) {
  std::atomic<bool> isDone = false;
  std::thread starter([&] {
    while (!isDone)
      if (const pid_t child = ::fork(); child == 0)
        ::_exit(0);
      else
        ::waitpid(child, nullptr, 0);
  });
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(mpsProcesses("/proc", pipe).empty());
  isDone = true;
  starter.join();
}

TEST_F(MpsProcessesTest, TheStartTimeDistinguishesProcessesWithOnePid) {
  process(7, {"a (b) c"}, {});
  EXPECT_EQ(startTimeOf(proc, 7), 500u);
  writeText(proc + "/7/stat", "7 (a) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 500 0 0\n");
  EXPECT_EQ(startTimeOf(proc, 7), 0u) << "it has ended";
  writeText(proc + "/7/stat", "7 (a) S 1 1\n");
  EXPECT_EQ(startTimeOf(proc, 7), 0u);
  EXPECT_EQ(startTimeOf(proc, 8), 0u);
  EXPECT_EQ(startTimeOf(proc, 0), 0u);
}

}  // namespace
}  // namespace egpu::agent::sharing
