// Fakes of nvidia-smi and nvidia-cuda-mps-control, with the processes that they start in a /proc of their own.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "controller/agent/sharing/host_programs.h"
#include "controller/base/clock.h"
#include "tests/support/scratch_folder.h"

namespace egpu::agent::sharing {

/// Clock whose sleeps take no time.
class SteppingClock final : public base::Clock {
 public:
  Steady now() const override { return now_; }
  Wall wall() const override {
    return Wall(std::chrono::seconds(1'700'000'000)) +
           std::chrono::duration_cast<Wall::duration>(now_ - Steady(std::chrono::hours(1)));
  }
  bool sleepUntil(Steady until, std::stop_token stop) override {
    now_ = std::max(now_, until);
    return !stop.stop_requested();
  }
  void advance(std::chrono::milliseconds time) { now_ += time; }

 private:
  Steady now_{std::chrono::hours(1)};
};

inline void writeText(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// Adds a process to a /proc of a test. The root folder of the process is that of this one.
inline void writeProcess(const std::string& proc, int64_t pid, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment, uint64_t startTime) {
  const auto folder = proc + "/" + std::to_string(pid);
  const auto joined = [](const std::vector<std::string>& texts) {
    std::string out;
    for (const auto& each : texts) out += each + '\0';
    return out;
  };
  const auto name = std::filesystem::path(arguments.front()).filename().string().substr(0, 15);
  writeText(folder + "/comm", name + "\n");
  writeText(folder + "/cmdline", joined(arguments));
  writeText(folder + "/environ", joined(environment));
  writeText(folder + "/stat", std::to_string(pid) + " (" + name + ") S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 " +
                                  std::to_string(startTime) + " 0 0\n");
  std::filesystem::create_directory_symlink("/", folder + "/root");
}

class FakePrograms final : public HostPrograms {
 public:
  FakePrograms(std::string proc, std::string hostRoot) : proc_(std::move(proc)) {
    std::filesystem::create_directories(proc_);
    for (const char* name : {"nvidia-smi", "nvidia-cuda-mps-control"}) writeText(hostRoot + "/usr/bin/" + name, "");
  }

  base::Result<std::string> run(const HostProgram& program, std::chrono::milliseconds) override {
    if (const auto reply = replyAboutLimits(program)) return *reply;
    auto call = nameOf(program) + joined(program.arguments);
    if (!program.input.empty()) call += " < " + program.input.substr(0, program.input.size() - 1);
    calls_.push_back(call);
    if (failing.count(nameOf(program)) != 0) return base::Status(base::Code::unavailable, "the program fails");
    if (nameOf(program) == "nvidia-cuda-mps-control") {
      if (!ignoresQuit) endDaemons(valueOf(program.env, "CUDA_MPS_PIPE_DIRECTORY"));
      return std::string();
    }
    const auto& card = program.arguments.at(1);
    if (program.arguments.at(2) != "-c") return modes.try_emplace(card, "Default").first->second + "\n";
    modes[card] = program.arguments.at(3);
    return std::string("Set compute mode\n");
  }
  base::Result<int64_t> startDaemon(const HostProgram& program, const DaemonPaths& paths) override {
    calls_.push_back("start" + joined(program.arguments));
    started = program;
    EXPECT_TRUE(std::filesystem::is_directory(paths.sharedMemory)) << paths.sharedMemory;
    const auto pid = ++lastPid_;
    const bool isRefused = !knowsMultiuser && program.arguments.size() > 1;
    if (isRefused || failing.count("start") != 0) {
      writeText(paths.log, isRefused ? "unknown option\n" : "no card\n");
      return pid;
    }
    std::vector<std::string> arguments{program.path};
    arguments.insert(arguments.end(), program.arguments.begin(), program.arguments.end());
    writeProcess(proc_, pid, arguments, program.env, 1000 + static_cast<uint64_t>(pid));
    const auto pipe = valueOf(program.env, "CUDA_MPS_PIPE_DIRECTORY");
    daemons_[pid] = pipe;
    writeText(pipe + "/control", "");
    return pid;
  }
  base::Result<bool> hasTmpfs(const std::string& folder) override { return mounted.count(folder) != 0; }
  base::Status mountTmpfs(const std::string& folder, const std::string&) override {
    if (mounted.insert(folder).second) calls_.push_back("mount");
    return base::Status::okay();
  }
  base::Status unmount(const std::string& folder) override {
    calls_.push_back("unmount");
    mounted.erase(folder);
    return base::Status::okay();
  }
  void signal(int64_t pid, int number) override {
    calls_.push_back("signal " + std::to_string(number) + " to " + std::to_string(pid));
    if (number == SIGKILL) end(pid);
  }

  /// Ends a process without a cleanup, as a fault does: its socket stays.
  void end(int64_t pid) {
    std::filesystem::remove_all(proc_ + "/" + std::to_string(pid));
    daemons_.erase(pid);
  }
  int64_t lastPid() const { return lastPid_; }
  /// Returns the calls since the last call of this function.
  std::vector<std::string> calls() { return std::exchange(calls_, {}); }
  static std::string valueOf(const std::vector<std::string>& env, const std::string& name) {
    for (const auto& each : env)
      if (each.rfind(name + "=", 0) == 0) return each.substr(name.size() + 1);
    return {};
  }

  std::map<std::string, std::string> modes;  ///< compute modes by uuid
  std::set<std::string> mounted;             ///< folders with a tmpfs
  std::set<std::string> failing;             ///< programs that fail; "start": daemons end at once
  bool knowsMultiuser = true, ignoresQuit = false;
  bool knowsVersion3 = false;  ///< such a daemon replies "namespace" to all commands
  bool forgetsLimits = false;
  bool isFaulty = false;                      ///< the daemon has a server, which is blocked by a fault
  std::string serverList;                     ///< other answer to get_server_list
  std::function<void()> whileAsked;           ///< is called with each command of version 2 about servers
  int serversAsked = 0;                       ///< number of commands get_server_status
  std::map<std::string, std::string> limits;  ///< values of commands of version 2, such as get_default_...
  HostProgram started;                        ///< the last daemon

 private:
  static std::string nameOf(const HostProgram& program) {
    return std::filesystem::path(program.path).filename().string();
  }
  /// Answers commands of version 2 about limits and servers, and the question for the version. They are not among the
  /// calls.
  std::optional<base::Result<std::string>> replyAboutLimits(const HostProgram& program) {
    if (nameOf(program) != "nvidia-cuda-mps-control" || failing.count(nameOf(program)) != 0) return std::nullopt;
    if (!program.arguments.empty()) {
      const bool isQuit = program.arguments.front() == "--quit";
      return isQuit ? std::nullopt : std::optional(base::Result(std::string(knowsVersion3 ? "namespace" : "usage")));
    }
    std::istringstream lines(program.input);
    std::string out;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string command, value, last;
      words >> command;
      if (command == "quit") return std::nullopt;
      while (words >> value) last = value;
      if (command.rfind("set_", 0) == 0 && !forgetsLimits) limits["get_" + command.substr(4)] = last;
      if (command.rfind("get_server_", 0) == 0 && whileAsked) whileAsked();
      if (command == "get_server_list") out += isFaulty ? "4711\n" : serverList;
      if (command == "get_server_status") out += isFaulty ? "FAULT\n" : "ACTIVE\n", ++serversAsked;
      if (limits.count(command) != 0) out += limits[command] + "\n";
    }
    return out;
  }
  static std::string joined(const std::vector<std::string>& texts) {
    std::string out;
    for (const auto& each : texts) out += " " + each;
    return out;
  }
  void endDaemons(const std::string& pipe) {
    const auto all = daemons_;
    for (const auto& [pid, its] : all)
      if (its == pipe) end(pid);
    std::filesystem::remove(pipe + "/control");
  }

  const std::string proc_;
  int64_t lastPid_ = 4000;
  std::map<int64_t, std::string> daemons_;  ///< pipe folders by PID
  std::vector<std::string> calls_;
};

}  // namespace egpu::agent::sharing
