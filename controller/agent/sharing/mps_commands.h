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

/// Ways to start a control daemon. Version 3 of its interface (driver R615) has namespaces with limits. With
/// version2SingleUser, each user gets a server of its own, one after the other.
enum class DaemonKind { version3, version2, version2SingleUser };

/// Folders of the node that belong to the MPS daemon of one card. Plugins and containers use the first two.
struct MpsFolders {
  std::string pipe;          ///< contains the socket `control`
  std::string sharedMemory;  ///< tmpfs, /dev/shm of the daemon and of its clients
  std::string log;
  /// File that exists while the clients of a daemon of version 3 get only the sockets of their namespace. Containers
  /// can't change it. Plugins read it.
  std::string namespaces;
};
MpsFolders mpsFoldersOf(const std::string& state, const std::string& card);

struct MpsCommandsOptions {
  std::string state = "/var/lib/elasticgpu";  ///< state folder of the plugins
  std::string hostRoot;                       ///< path of the host's root folder in this process; empty = "/"
  std::string driverRoot;                     ///< host folder with the driver's files; empty = the root folder
};

/// Returns the folders of the driver root with its libraries, separated by colons; empty = no driver root. An error if
/// programs of the host can't use the libraries.
base::Result<std::string> driverLibraryPath(const MpsCommandsOptions& options);

/// Thread-safe; the programs must outlive it.
class MpsCommands {
 public:
  MpsCommands(HostPrograms& programs, MpsCommandsOptions options) : programs_(programs), options_(std::move(options)) {}

  MpsFolders foldersOf(const std::string& card) const { return mpsFoldersOf(options_.state, card); }
  /// Returns the compute mode in capitals, such as "DEFAULT".
  base::Result<std::string> computeMode(const std::string& card) const;
  base::Status setComputeMode(const std::string& card, const std::string& mode) const;
  /// Sets the time slice of the card: 0 (the driver's default), 1 (short), 2 (medium) or 3 (long).
  base::Status setTimeSlice(const std::string& card, int slice) const;
  /// True if the installed control daemon knows version 3.
  bool knowsVersion3() const;
  /// Starts the control daemon and returns its PID. A daemon that does not know an option ends at once.
  base::Result<int64_t> startDaemon(const std::string& card, DaemonKind kind) const;
  /// Asks the daemon to end its servers and itself.
  base::Status quit(const std::string& card, int version) const;
  /// Sends a command to the daemon and returns the reply. Version 3 reads commands from the arguments, version 2 from
  /// standard input.
  base::Result<std::string> control(const std::string& card, std::vector<std::string> arguments,
                                    std::string input = {}) const;

 private:
  /// Returns the program with its path on the host and the environment for the driver root.
  base::Result<HostProgram> find(const std::string& name) const;
  std::vector<std::string> controlEnvironment(const HostProgram& program, const std::string& card) const;

  HostPrograms& programs_;
  const MpsCommandsOptions options_;
};

}  // namespace egpu::agent::sharing
