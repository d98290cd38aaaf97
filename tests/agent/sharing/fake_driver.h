// A driver root with the fake programs of tests/gpu/mps, and the programs and mounts of this machine.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "controller/agent/sharing/host_programs.h"
#include "controller/agent/sharing/mps_commands.h"
#include "controller/agent/sharing/mps_processes.h"
#include "controller/base/files.h"
#include "tests/support/scratch_folder.h"

namespace egpu::agent::sharing {

/// Programs of this machine. Without the rights to mount, a file takes the place of a tmpfs.
class LocalPrograms : public HostPrograms {
 public:
  LocalPrograms() {
    const support::ScratchFolder scratch;
    mounts_ = node_.mountTmpfs(scratch.path(), "size=4k").ok() && node_.unmount(scratch.path()).ok();
  }
  base::Result<std::string> run(const HostProgram& program, std::chrono::milliseconds timeout) override {
    return node_.run(program, timeout);
  }
  base::Result<int64_t> startDaemon(const HostProgram& program, const DaemonPaths& paths) override {
    return node_.startDaemon(program, mounts_ ? paths : DaemonPaths{"", "", paths.log});
  }
  base::Result<bool> hasTmpfs(const std::string& folder) override {
    return mounts_ ? node_.hasTmpfs(folder) : base::Result<bool>(std::filesystem::exists(folder + ".tmpfs"));
  }
  base::Status mountTmpfs(const std::string& folder, const std::string& options) override {
    if (mounts_) return node_.mountTmpfs(folder, options);
    std::ofstream(folder + ".tmpfs") << "";
    return base::Status::okay();
  }
  base::Status unmount(const std::string& folder) override {
    if (mounts_) return node_.unmount(folder);
    std::filesystem::remove(folder + ".tmpfs");
    return base::Status::okay();
  }
  void signal(int64_t pid, int number) override { node_.signal(pid, number); }

 private:
  NodePrograms node_{{false, "/proc", ""}};
  bool mounts_ = false;
};

/// The driver root with its state, driver.json.
class FakeDriver {
 public:
  explicit FakeDriver(std::string root) : root_(std::move(root)) {
    const auto bin = root_ + "/usr/bin/";
    std::filesystem::create_directories(bin);
    for (const std::string name : {"nvidia-smi", "nvidia-cuda-mps-control"})
      std::filesystem::create_symlink(EGPU_SOURCE_DIR "/tests/gpu/mps/" + name, bin + name);
    std::filesystem::create_symlink("/usr/bin/sleep", bin + "nvidia-cuda-mps-server");
  }
  const std::string& root() const { return root_; }
  nlohmann::json state() const {
    const auto text = base::readFile(root_ + "/driver.json");
    return text.ok() ? nlohmann::json::parse(*text) : nlohmann::json::object();
  }
  void set(const std::string& key, const nlohmann::json& value) {
    auto all = state();
    all[key] = value;
    std::ofstream(root_ + "/driver.json") << all.dump();
  }
  std::string modeOf(const std::string& card) const {
    return state().value("modes", nlohmann::json::object()).value(card, "Default");
  }

 private:
  const std::string root_;
};

/// Waits until no MPS process with the pipe folder is left; false after ten seconds.
inline bool areProcessesGone(const std::string& pipe) {
  for (int i = 0; i < 1000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    if (mpsProcesses("/proc", pipe).empty()) return true;
  return false;
}

}  // namespace egpu::agent::sharing
