// Interfaces that serve the kubelet, independent of gRPC: `Driver` prepares and unprepares claims, `HealthSource`
// reports the health of prepared devices.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "controller/agent/claim_ref.h"
#include "controller/base/clock.h"
#include "controller/base/status.h"

namespace egpu::agent::dra {

/// One device of a ResourceClaim, prepared for containers.
struct PreparedDevice {
  std::vector<std::string> requests;    ///< request names in the ResourceClaim; empty = all
  std::string pool, device;             ///< names in the allocation; keys of the device's health
  std::vector<std::string> cdiDevices;  ///< "elasticgpu.io/device=<uid>"
};

/// Thread-safe, but two threads never call it for the same uid at once. Namespace and name are DNS names. The uid has 1
/// to 64 letters, digits and dashes. As a file name none of the three can leave its folder. Both calls are idempotent:
/// the kubelet repeats them after an error, after its deadline, and after its own restart. `stop` is requested when the
/// kubelet no longer waits (its deadline of 45 s has passed, or it closed the connection) and when the process ends.
/// The message of an error appears in the pod's event.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual base::Result<std::vector<PreparedDevice>> prepare(const ClaimRef& claim, std::stop_token stop) = 0;
  /// Returns OK also for a claim that was never prepared.
  virtual base::Status unprepare(const ClaimRef& claim, std::stop_token stop) = 0;
};

struct DeviceHealth {
  enum class State { unknown, healthy, unhealthy };
  std::string pool, device;  ///< names as in PreparedDevice
  State state = State::unknown;
  base::Clock::Wall checked;  ///< time at which the state was determined
  std::string message;        ///< the problem and its remedy; shown by kubelet 1.37 and later
};

/// Thread-safe; does not block.
class HealthSource {
 public:
  virtual ~HealthSource() = default;
  /// Returns all prepared devices. The kubelet treats a device that is missing for 30 s as unknown.
  virtual std::vector<DeviceHealth> devices() = 0;
};

}  // namespace egpu::agent::dra
