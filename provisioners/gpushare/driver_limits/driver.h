// Memory limits of NVIDIA's driver through NVML, which is loaded at run time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "provisioners/gpushare/driver_limits/records.h"
#include "provisioners/nvidia/nvml_memory_limits.h"

namespace egpu::driver_limits {

/// Limits in force for one card, and the memory that the processes of the cgroup use; bytes.
struct InForce {
  CardLimits limits;
  uint64_t used = 0;
};

/// Interface, so that tests can fail each step. Errors are sentences; empty = success.
class LimitDriver {
 public:
  virtual ~LimitDriver() = default;
  /// Sets the limits of a cgroup on a card. hard: nvidia::kNoMemoryLimit = none.
  virtual std::string set(const std::string& card, const std::string& cgroup, const CardLimits& limits) = 0;
  /// Reads the limits in force; a cgroup that never had any has nvidia::kNoMemoryLimit.
  virtual std::string get(const std::string& card, const std::string& cgroup, InForce& out) = 0;
};

/// The driver of this machine.
class NvmlDriver final : public LimitDriver {
 public:
  /// Returns null and sets `why` if the driver has no memory limits.
  static std::unique_ptr<NvmlDriver> open(std::string& why);
  ~NvmlDriver() override;
  NvmlDriver(const NvmlDriver&) = delete;
  NvmlDriver& operator=(const NvmlDriver&) = delete;

  std::string set(const std::string& card, const std::string& cgroup, const CardLimits& limits) override;
  std::string get(const std::string& card, const std::string& cgroup, InForce& out) override;
  /// Returns why the card has no memory limits, such as its MIG mode; empty if it may have.
  std::string whyUnsuitable(const std::string& card) const;
  /// Memory of the card in bytes; 0 = unknown.
  uint64_t memoryOf(const std::string& card) const;
  /// Uuids of all cards.
  std::vector<std::string> cards() const;

 private:
  struct Functions;
  NvmlDriver();
  std::string findCards();
  nvidia::Device deviceOf(const std::string& card) const;

  std::unique_ptr<Functions> nvml_;
  std::map<std::string, nvidia::Device> devices_;  ///< by uuid
};

}  // namespace egpu::driver_limits
