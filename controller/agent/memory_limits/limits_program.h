// The program that limits the memory of containers through the driver (provisioners/gpushare/driver_limits): its
// installation on the host, its commands, and the hooks for CDI files.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/core/container_edits.h"
#include "controller/agent/sharing/host_programs.h"
#include "controller/agent/sharing/mps_commands.h"
#include "controller/base/status.h"
#include "provisioners/gpushare/driver_limits/records.h"

namespace egpu::agent::memory_limits {

using driver_limits::ContainerUse;
using driver_limits::Problem;

struct LimitsProgramOptions {
  sharing::MpsCommandsOptions host;  ///< state folder and driver root
  std::string source;                ///< path of the program in this process's file system
  std::vector<std::string> env{};    ///< more variables of the program, for tests
};

/// Thread-safe. The programs must outlive it. Errors have Code::unavailable.
class LimitsProgram {
 public:
  LimitsProgram(sharing::HostPrograms& programs, LimitsProgramOptions options)
      : programs_(programs), options_(std::move(options)), records_(options_.host.state) {}

  const driver_limits::Records& records() const { return records_; }
  /// Copies the program into the state folder, by the hash of its content, and returns its path there. Only root can
  /// enter the folder, because the container runtime executes the program as root.
  base::Result<std::string> install() const;
  /// Removes installed copies except the current one.
  void removeOthers() const;
  /// Returns the hooks for containers of the device.
  base::Result<std::vector<core::Hook>> hooksFor(const std::string& deviceUid) const;
  /// True if containers with these edits get limits from the program.
  bool hasHooks(const core::ContainerEdits& edits) const;

  /// Puts the recorded amounts of all devices into force.
  base::Result<std::vector<Problem>> apply() const;
  base::Result<std::vector<ContainerUse>> usage() const;
  /// Forgets devices that are no longer prepared.
  base::Result<std::vector<Problem>> release(const std::vector<std::string>& deviceUids) const;
  /// Returns "available", or why the card has no memory limits, by uuid.
  base::Result<std::map<std::string, std::string>> probe(const std::set<std::string>& cards) const;

 private:
  std::string folder() const { return records_.folder() + "/program"; }
  base::Result<std::vector<std::string>> environment() const;
  base::Result<std::string> run(const std::string& verb, const std::vector<std::string>& words) const;

  sharing::HostPrograms& programs_;
  const LimitsProgramOptions options_;
  const driver_limits::Records records_;
};

}  // namespace egpu::agent::memory_limits
