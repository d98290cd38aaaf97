// Processes of the host, as slots of a limited device name them. A scan of all processes is expensive, so processes
// that were found are remembered.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "provisioners/gpushare/limiter/page.h"

namespace egpu::agent::limiter {

/// Not thread-safe.
class HostProcesses {
 public:
  /// proc: the host's /proc.
  explicit HostProcesses(std::string proc) : proc_(std::move(proc)) {}

  /// Begins a round: all slots about which hasOwner() is called until the next round were read before this call.
  void beginRound();
  /// True if the process that owns the slot runs. Scans all processes at most once per round.
  bool hasOwner(const egpu_limiter_slot& slot);
  /// True if the process with this PID of the host owns a slot of the page. True also if it has ended.
  bool hasSlot(uint64_t hostPid, const egpu_limiter_usage& usage) const;

 private:
  using Name = std::tuple<uint64_t, uint64_t, uint64_t>;  ///< PID namespace, PID there, start time
  bool runs(const Name& name, uint64_t hostPid) const;
  bool scan();

  const std::string proc_;
  std::optional<bool> scanned_;     ///< in this round; false = the processes could not be read
  std::map<Name, uint64_t> known_;  ///< PIDs of the host
};

}  // namespace egpu::agent::limiter
