// One prepared device whose containers have the limiter: its limits, its slots, and programs that evade the limiter.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/agent/limiter/device_files.h"
#include "controller/agent/limiter/host_processes.h"
#include "controller/base/clock.h"
#include "controller/plugin/provisioner.h"

namespace egpu::agent::limiter {

/// Process of one of the device's pods on one of its cards. A process with a slot in another device of the pod is not
/// among them.
struct PodProcess {
  plugin::CardProcess process;
  std::string pod;      ///< uid
  bool hasSlot = true;  ///< false: in no device of the pod, all of which could be read
};

/// A program that evades the limiter, or more use of a card than the device has.
struct Bypass {
  std::string card;     ///< uuid
  std::string pod;      ///< uid; if several pods use too much together, of the one that uses most
  std::string message;  ///< sentence for people, without the claim
  bool operator==(const Bypass&) const = default;
};

/// Returns the first bypass among the processes of the device's pods; nullopt = none. `name`: of a process, for people.
/// The memory of a card counts as exceeded only beyond kContextMemory per process, because the limiter does not count
/// contexts, code and stacks of kernels.
std::optional<Bypass> findBypass(const std::vector<v1alpha::DeviceCard>& cards,
                                 const std::vector<PodProcess>& processes,
                                 const std::function<std::string(int64_t pid)>& name);
inline constexpr int64_t kContextMemory = int64_t{1} << 30;  ///< bytes

/// Suppresses bypasses that last for less than two rounds, such as a process that ends, and reports that they are over
/// only after kQuietRounds rounds without one, or once the device has no processes.
class Suspicion {
 public:
  /// Returns the bypass to be reported; nullopt = none.
  const std::optional<Bypass>& observe(std::optional<Bypass> now, bool isIdle = false);
  const std::optional<Bypass>& reported() const { return reported_; }
  static constexpr int kQuietRounds = 40;

 private:
  std::optional<Bypass> last_, reported_;
  int quiet_ = 0;
};

/// Compares the GPU time that the device's processes charged in the last second with NVML's measurement.
class Factors {
 public:
  static constexpr std::chrono::milliseconds kPeriod{1'000};
  /// Returns the factor of the card; the current one while no period is complete. `spent`: as in the usage file;
  /// `percent`: of the card's time that the device's processes used in the last second, -1 = unknown.
  uint32_t next(const std::string& card, uint32_t factor, base::Clock::Steady now, uint64_t spent, int64_t percent);

 private:
  struct Start {
    base::Clock::Steady at;
    uint64_t spent;
  };
  std::map<std::string, Start> starts_;  ///< start of the current period, by uuid of the card
};

}  // namespace egpu::agent::limiter
