#include "controller/agent/limiter/host_processes.h"

#include <algorithm>
#include <iterator>

#include "provisioners/gpushare/limiter/host_processes.h"

namespace egpu::agent::limiter {

void HostProcesses::beginRound() { scanned_.reset(); }

bool HostProcesses::runs(const Name& name, uint64_t hostPid) const {
  egpu_limiter_process process{};
  return egpu_limiter_read_process(&process, proc_.c_str(), hostPid) != 0 &&
         Name(process.pidNamespace, process.pid, process.started) == name;
}

bool HostProcesses::scan() {
  egpu_limiter_processes all{};
  if (egpu_limiter_read_processes(&all, proc_.c_str()) != 0) return false;
  known_.clear();
  for (std::size_t i = 0; i < all.count; ++i) {
    const auto& process = all.list[i];
    known_.emplace(Name(process.pidNamespace, process.pid, process.started), process.hostPid);
  }
  egpu_limiter_free_processes(&all);
  return true;
}

bool HostProcesses::hasOwner(const egpu_limiter_slot& slot) {
  // A process that has just taken its slot has not written all of it.
  if (slot.pidNamespace == 0 || slot.started == 0) return true;
  const Name name(slot.pidNamespace, slot.owner >> 32, slot.started);
  if (const auto known = known_.find(name); known != known_.end() && runs(name, known->second)) return true;
  if (!scanned_) scanned_ = scan();
  if (!*scanned_) return true;  // unknown: the slot stays
  const auto known = known_.find(name);
  return known != known_.end() && runs(name, known->second);
}

bool HostProcesses::hasSlot(uint64_t hostPid, const egpu_limiter_usage& usage) const {
  egpu_limiter_process process{};
  if (egpu_limiter_read_process(&process, proc_.c_str(), hostPid) == 0) return true;
  return std::any_of(std::begin(usage.slot), std::end(usage.slot), [&](const auto& slot) {
    // The start time follows the owner.
    return slot.owner >> 32 == process.pid && (slot.started == process.started || slot.started == 0) &&
           (slot.pidNamespace == process.pidNamespace || slot.pidNamespace == 0);
  });
}

}  // namespace egpu::agent::limiter
