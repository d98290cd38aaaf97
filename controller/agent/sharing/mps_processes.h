// MPS processes of this machine, as /proc shows them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace egpu::agent::sharing {

/// Variable in the environment of each daemon that the agent starts. Its servers inherit the variable.
inline constexpr std::string_view kStartedByAgent = "ELASTICGPU_MPS_DAEMON";

struct MpsProcess {
  int64_t pid = 0;
  bool isDaemon = false;  ///< control daemon; false = MPS server
  bool isStartedByAgent = false;
};

/// Returns the PIDs in `proc`, the host's "/proc".
std::vector<int64_t> pidsIn(const std::string& proc);

/// Returns the start time of a process in clock ticks since the boot: it distinguishes processes that had the same PID.
/// 0 = no such process, or it has ended and its parent has not reaped it. `proc`: the host's "/proc".
uint64_t startTimeOf(const std::string& proc, int64_t pid);

/// Returns the start time of a process in seconds since the boot, rounded down; 0 = as above.
int64_t startSecondsOf(const std::string& proc, int64_t pid);

/// Returns the time of the boot in seconds since 1970; 0 = unknown. It changes when the wall clock is set.
int64_t bootSecondsOf(const std::string& proc);

/// True if the process has loaded the driver's library, under any of its names.
bool hasLoadedDriver(const std::string& proc, int64_t pid);

/// Returns the control daemons and servers whose pipe folder is `pipeFolder`. Daemons in containers count if this
/// folder of the host is mounted there. Processes with another PID namespace do not: MPS needs the host's, and a
/// container of a claim could start a program with such a name.
std::vector<MpsProcess> mpsProcesses(const std::string& proc, const std::string& pipeFolder);

}  // namespace egpu::agent::sharing
