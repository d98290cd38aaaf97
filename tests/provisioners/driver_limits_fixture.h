// A node with the driver's memory limits for tests of the program driver-limits: the fake NVML, folders as cgroups, and
// the files of /proc about containers.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "controller/agent/sharing/host_programs.h"
#include "provisioners/gpushare/driver_limits/records.h"
#include "tests/nvml/fake_nvml.h"
#include "tests/support/scratch_folder.h"

namespace egpu::driver_limits::testing {

namespace fs = std::filesystem;

inline constexpr uint64_t kGiB = uint64_t{1} << 30;
inline const std::string kCard = "GPU-41000000-0000-4000-8000-000000000000",
                         kOther = "GPU-41000000-0000-4000-8000-000000000001";

/// The node. At most one exists at a time.
class LimitedNode {
 public:
  LimitedNode() {
    nvml.file["driver"] = "615.71.09";
    nvml.file["memoryLimits"] = "dmem";
    nvml.write();
    fs::create_directories(state);
    fs::create_directories(cgroups);
    std::ofstream(cgroups + "/cgroup.controllers") << "dmem\n";
    EXPECT_EQ(records.open(), "");
  }

  /// Creates a cgroup and its parents, with the controller dmem, and a process in it. Returns its folder.
  std::string makeCgroup(const std::string& path) const {
    fs::path folder = cgroups;
    for (const auto& part : fs::path(path).relative_path()) {
      folder /= part;
      fs::create_directory(folder);
      if (!fs::exists(folder / "dmem.min")) std::ofstream(folder / "dmem.min").flush();
    }
    std::ofstream(folder / "cgroup.events") << "populated 1\n";
    return folder.string();
  }
  /// Creates the files of a container with this id, and returns the state that the runtime gives to hooks.
  std::string makeContainer(const std::string& id, const std::string& path) {
    makeCgroup(path);
    const int pid = ++lastPid_;
    const fs::path folder = proc + "/" + std::to_string(pid);
    fs::create_directories(folder);
    std::ofstream(folder / "cgroup") << "0::" << path << "\n";
    return R"({"ociVersion":"1.2.0","annotations":{"id":"x","pid":[1,{}]},"id":")" + id +
           R"(","status":"creating","pid":)" + std::to_string(pid) + R"(,"bundle":"/run/\"b"})";
  }

  /// Runs the program. kill: step at which the fake NVML kills it; -1 = none.
  base::Result<std::string> run(std::vector<std::string> words, const std::string& input = {}, int kill = -1) {
    agent::sharing::HostProgram program{EGPU_DRIVER_LIMITS, {}, nvml.environment(), input};
    words.insert(words.begin() + 1, state);
    program.arguments = std::move(words);
    program.env.push_back("ELASTICGPU_CGROUPS=" + cgroups);
    program.env.push_back("ELASTICGPU_PROC=" + proc);
    if (kill >= 0) program.env.push_back("ELASTICGPU_FAKE_NVML_KILL=" + std::to_string(kill));
    return programs_.run(program, std::chrono::seconds(30));
  }
  /// Output of a run that succeeds.
  std::string output(std::vector<std::string> words, const std::string& input = {}) {
    const auto ran = run(std::move(words), input);
    EXPECT_TRUE(ran.ok()) << ran.status().str();
    return ran.ok() ? *ran : "";
  }
  /// Message of a run that fails.
  std::string failure(std::vector<std::string> words, const std::string& input = {}) {
    const auto ran = run(std::move(words), input);
    EXPECT_FALSE(ran.ok()) << *ran;
    return ran.status().message();
  }

  /// Value of a card in a file of the fake; -1 = none.
  int64_t valueIn(const std::string& cgroup, const std::string& file, const std::string& card = kCard) const {
    std::ifstream in(cgroup + "/" + file);
    std::string uuid;
    for (uint64_t value = 0; in >> uuid >> value;)
      if (uuid == card) return static_cast<int64_t>(value);
    return -1;
  }
  int64_t hard(const std::string& cgroup, const std::string& card = kCard) const {
    return valueIn(cgroup, "dmem.max", card);
  }
  int64_t soft(const std::string& cgroup, const std::string& card = kCard) const {
    return valueIn(cgroup, "dmem.min", card);
  }
  void use(const std::string& cgroup, uint64_t bytes, const std::string& card = kCard) const {
    std::ofstream(cgroup + "/fake.used") << card << " " << bytes << "\n";
  }
  DeviceRecord recordOf(const std::string& device) const {
    std::vector<std::string> problems;
    auto all = records.read(problems);
    EXPECT_TRUE(problems.empty());
    return all[device];
  }

  nvidia::testing::FakeNvml nvml{"h100"};
  support::ScratchFolder scratch;
  const std::string state = scratch.path() + "/state", cgroups = scratch.path() + "/cgroup",
                    proc = scratch.path() + "/proc";
  const Records records{state};

 private:
  agent::sharing::NodePrograms programs_{{false, "/proc", ""}};
  int lastPid_ = 100;
};

}  // namespace egpu::driver_limits::testing
