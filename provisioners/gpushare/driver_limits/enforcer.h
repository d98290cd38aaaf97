// Divides the amounts of devices among their containers, and puts the parts into force.
//
//   - The containers of a device get equal parts of each card, so that their sum never exceeds the device. A container
//     that starts while another container uses more than its new part fails. After a resize to less, the new limit
//     applies at once, and memory in use stays until the container frees it.
//   - A container with several devices has one cgroup. The limit of the cgroup on a card is the sum of its parts.
//   - A record names at least the limits in force: it is written before a limit is raised, and after it is lowered.
//     After a process was killed at any step, the next run finds these limits and corrects them.
//   - The driver adds soft limits to the parent cgroups (dmem). Before a cgroup is removed, its soft limit becomes 0.
//     The soft limit of a cgroup that is gone is subtracted from the parents that remain.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "provisioners/gpushare/driver_limits/container.h"
#include "provisioners/gpushare/driver_limits/driver.h"
#include "provisioners/gpushare/driver_limits/records.h"

namespace egpu::driver_limits {

/// The caller holds the lock of the records. Errors are sentences; empty = success.
class Enforcer {
 public:
  /// Reads the records. root: mount point of the cgroups.
  Enforcer(const Records& records, LimitDriver& driver, std::string root);

  /// Limits a container that starts. After an error it has no soft limits, and must not start.
  std::string create(const std::string& device, const std::string& id, const std::string& cgroup);
  /// Releases the part of a container that has ended.
  void remove(const std::string& device, const std::string& id);
  /// Releases the parts of all ended containers, and puts the amounts of all devices into force.
  void apply();
  /// Forgets a device that is no longer prepared.
  void release(const std::string& device);
  std::vector<ContainerUse> usage();
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  using Containers = std::map<std::string, ContainerRecord>;

  /// Sum of the parts of all devices of the cgroup, and their number.
  std::pair<CardLimits, int> totalOf(const std::string& cgroup, const std::string& card) const;
  std::string put(const std::string& cgroup, const std::string& card, const CardLimits& limits);
  std::string change(const std::string& device, const std::string& id, const std::string& card, CardLimits part);
  uint64_t usedBy(const ContainerRecord& container, const std::string& card);
  std::string whyNoPart(const std::string& device, const std::string& id, const std::string& card, uint64_t part);
  std::string makeRoom(const std::string& device, const std::string& id);
  std::string start(const std::string& device, const std::string& id);
  void rebalance(const std::string& device);
  void raise(const std::string& device, const std::string& card, const CardLimits& target);
  void correct(const std::string& device, const std::string& card);
  void dropEnded(const std::string& device);
  bool end(const std::string& device, const std::string& id);
  std::string endOn(const ContainerRecord& container, const std::string& card, const CardLimits& part);
  std::string repairParents(const std::string& cgroup, const std::string& card, uint64_t soft);
  std::string repair(const std::string& folder, const std::string& card, uint64_t soft);
  void report(const std::string& device, const std::string& text);

  const Records& records_;
  LimitDriver& driver_;
  const std::string root_;
  std::vector<Problem> problems_;
  Devices devices_;
};

}  // namespace egpu::driver_limits
