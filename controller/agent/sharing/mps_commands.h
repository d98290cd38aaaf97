// Commands of nvidia-smi and nvidia-cuda-mps-control for one card.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controller/agent/sharing/host_programs.h"
#include "controller/base/status.h"

namespace egpu::agent::sharing {

/// Compute modes, as `nvidia-smi -c` takes them.
inline constexpr const char* kExclusiveProcess = "EXCLUSIVE_PROCESS";
inline constexpr const char* kProhibited = "PROHIBITED";

/// Folders of the node that belong to the MPS daemon of one card. Plugins and containers use the first two.
struct MpsFolders {
  std::string pipe;          ///< contains the socket `control`
  std::string sharedMemory;  ///< tmpfs, /dev/shm of the daemon and of its clients
  std::string log;
};
MpsFolders mpsFoldersOf(const std::string& state, const std::string& card);

struct MpsCommandsOptions {
  std::string state = "/var/lib/elasticgpu";  ///< state folder of the plugins
  std::string hostRoot;                       ///< path of the host's root folder in this process; empty = "/"
  std::string driverRoot;                     ///< host folder with the driver's files; empty = the root folder
};

/// Thread-safe; the programs must outlive it.
class MpsCommands {
 public:
  MpsCommands(HostPrograms& programs, MpsCommandsOptions options) : programs_(programs), options_(std::move(options)) {}

  MpsFolders foldersOf(const std::string& card) const { return mpsFoldersOf(options_.state, card); }
  /// Returns the compute mode in capitals, such as "DEFAULT".
  base::Result<std::string> computeMode(const std::string& card) const;
  base::Status setComputeMode(const std::string& card, const std::string& mode) const;
  /// Starts the control daemon and returns its PID. isMultiuser: clients of all users share one server; drivers that do
  /// not know this option end at once.
  base::Result<int64_t> startDaemon(const std::string& card, bool isMultiuser) const;
  /// Asks the daemon to end its servers and itself.
  base::Status quit(const std::string& card) const;

 private:
  /// Returns the program with its path on the host and the environment for the driver root.
  base::Result<HostProgram> find(const std::string& name) const;
  std::vector<std::string> controlEnvironment(const HostProgram& program, const std::string& card) const;

  HostPrograms& programs_;
  const MpsCommandsOptions options_;
};

}  // namespace egpu::agent::sharing
