// What the kubelet asks of this node's DRA driver, without gRPC: claims to prepare and to give back, and how devices do.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "controller/agent/claim_ref.h"
#include "controller/base/clock.h"
#include "controller/base/status.h"

namespace egpu::agent::dra {

/// One device of a ResourceClaim, ready for containers.
struct PreparedDevice {
  std::vector<std::string> requests;    ///< of the ResourceClaim; empty = all
  std::string pool, device;             ///< as in the allocation; the kubelet finds its health by them
  std::vector<std::string> cdiDevices;  ///< "elasticgpu.io/device=<uid>"
};

/// Thread-safe, but never called for one uid by two threads at once. Namespace and name are DNS names; the uid has
/// letters, digits and dashes, at most 64 of them: none can leave a folder as a file's name. Both calls are idempotent: the kubelet repeats
/// them after an error, after its deadline, and after its own restart. `stop`: the kubelet waits no more (its deadline,
/// 45 s, has passed or it hung up), or the process ends. A message is the reason that the pod's event tells.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual base::Result<std::vector<PreparedDevice>> prepare(const ClaimRef& claim, std::stop_token stop) = 0;
  /// Ok, too, for a claim that was never prepared.
  virtual base::Status unprepare(const ClaimRef& claim, std::stop_token stop) = 0;
};

struct DeviceHealth {
  enum class State { unknown, healthy, unhealthy };
  std::string pool, device;  ///< as in PreparedDevice
  State state = State::unknown;
  base::Clock::Wall checked;  ///< when that was found out
  std::string message;        ///< what is wrong and what to do; the kubelet shows it from 1.37 on
};

/// Thread-safe; returns at once.
class HealthSource {
 public:
  virtual ~HealthSource() = default;
  /// Every prepared device: what is not named is unknown to the kubelet half a minute later.
  virtual std::vector<DeviceHealth> devices() = 0;
};

}  // namespace egpu::agent::dra
