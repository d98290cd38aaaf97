// Keeps the driver's memory limits of containers with isolation driver in force (provisioners/gpushare/driver_limits).
//
//   support   which cards have limits: the attribute memoryLimits of each card
//   prepare   before a plugin stages a device: its amounts are recorded for the hooks of its containers
//   round     every quarter of a second: limits follow the amounts in force and the end of cgroups; devices that are no
//             longer prepared are forgotten; problems become events of the claims
//   usage     every few seconds, as the driver counts it per cgroup
//
// Without this loop, the last limits stay in force. Limits that a killed process left are corrected by the first round
// of the next agent.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/agent/cdi/folder.h"
#include "controller/agent/memory_limits/limits_program.h"
#include "controller/agent/usage/usage.h"
#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/cache/store.h"
#include "controller/kube/event_sink.h"

namespace egpu::agent::memory_limits {

using Gpu = v1alpha::ElasticGPU;
/// Returns the object of a device of this node; null = not known yet.
using FindDevice = std::function<cache::Store<Gpu>::Ptr(const std::string& name)>;

inline constexpr std::string_view kDriverMode = "driver";  ///< isolation mode of devices and cards

struct MemoryLimitsOptions {
  LimitsProgramOptions program;
  std::string hostRoot = "/proc/1/root";  ///< the host's root folder, with its cgroups; "" for tests
  std::chrono::milliseconds interval{250};
  std::chrono::milliseconds applyInterval{30'000};   ///< between two corrections of unchanged limits
  std::chrono::milliseconds endedInterval{1'000};    ///< minimum between two corrections because of ended cgroups
  std::chrono::milliseconds usageInterval{5'000};    ///< between two questions for the usage
  std::chrono::milliseconds probeInterval{300'000};  ///< until a card without limits is probed again
  std::chrono::milliseconds repeatEvent{600'000};    ///< minimum between two events of a device
};

/// Thread-safe. References must outlive it. Call start() once; the destructor stops and joins.
class MemoryLimits {
 public:
  /// probed: is called after cards were probed.
  MemoryLimits(sharing::HostPrograms& programs, cdi::Folder& folder, kube::EventSink& events, base::Clock& clock,
               FindDevice device, std::function<void()> probed, MemoryLimitsOptions options);
  ~MemoryLimits();

  /// Returns "available", or why the driver does not limit the memory of containers on the card; empty = not known yet,
  /// or not a card of NVIDIA's driver. The next round probes an unknown card.
  std::string supportOn(const v1alpha::Card& card) EGPU_EXCLUDES(mutex_);
  /// Records the amounts of the device if its isolation mode is driver. Its CDI part file must exist, because it keeps
  /// the record. Errors have Code::unavailable.
  base::Status requireFor(const Gpu& device) EGPU_EXCLUDES(writing_, mutex_);
  /// Notes how many containers of a pod use the prepared device at the same time, so that the first of them does not
  /// get the memory of the others.
  void expect(const std::string& deviceUid, std::size_t containers) EGPU_EXCLUDES(mutex_);
  /// Returns the hooks for containers of the device; none for other modes.
  base::Result<std::vector<core::Hook>> hooksFor(const Gpu& device) const;
  /// Returns the memory that containers use, as last measured.
  std::vector<usage::Measured> measured() EGPU_EXCLUDES(mutex_);

  void start();
  void stop();
  /// One round. For tests; otherwise the thread calls it.
  void round() EGPU_EXCLUDES(writing_, mutex_);

 private:
  struct Support {
    std::string driver;           ///< version, and the MIG mode
    std::string answer;           ///< empty = not probed yet
    base::Clock::Steady until{};  ///< when a card without limits is probed again
  };

  void probe() EGPU_EXCLUDES(mutex_);
  bool update(std::vector<std::string>& unprepared) EGPU_REQUIRES(writing_, mutex_);
  bool record(const cdi::Spec& spec, const driver_limits::Devices& known) EGPU_REQUIRES(writing_, mutex_);
  uint64_t containersOf(const std::string& deviceUid, uint64_t otherwise) const EGPU_REQUIRES(mutex_);
  void apply() EGPU_EXCLUDES(mutex_);
  void measure() EGPU_EXCLUDES(mutex_);
  void report(const std::vector<Problem>& problems) EGPU_EXCLUDES(mutex_);
  void note(const base::Status& status);

  cdi::Folder& folder_;
  kube::EventSink& events_;
  base::Clock& clock_;
  const FindDevice device_;
  const std::function<void()> probed_;
  const MemoryLimitsOptions options_;
  const LimitsProgram program_;
  /// Held while records are written, and while the program removes some, for which it may wait for the driver. Only the
  /// preparation of devices with this isolation waits for it. Acquired before mutex_.
  base::Mutex writing_;
  base::Mutex mutex_;
  std::map<std::string, Support> support_ EGPU_GUARDED_BY(mutex_);      ///< by uuid of the card
  std::map<std::string, std::string> devices_ EGPU_GUARDED_BY(mutex_);  ///< names of prepared devices, by uid
  std::map<std::string, uint64_t> expected_ EGPU_GUARDED_BY(mutex_);    ///< numbers of containers, by uid of the device
  bool hasContainers_ EGPU_GUARDED_BY(mutex_) = false;
  std::vector<usage::Measured> measured_ EGPU_GUARDED_BY(mutex_);
  // Only the thread of the rounds uses these.
  base::Clock::Steady nextApply_{}, nextEnded_{}, nextUsage_{};
  std::map<std::string, base::Clock::Steady> reported_;  ///< last event, by uid of the device
  std::string error_;                                    ///< last error, which is logged once
  std::jthread thread_;                                  ///< last member, because it uses all others
};

}  // namespace egpu::agent::memory_limits
