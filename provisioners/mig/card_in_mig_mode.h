// A card of this machine in MIG mode: its profiles, and its instances as they exist now.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/plugin/provisioner.hpp"
#include "provisioners/nvidia/library.h"
#include "provisioners/nvidia/mig/instances.h"

namespace egpu::mig {

/// Where a card is.
enum class Presence {
  here,      ///< NVML reaches it
  elsewhere  ///< neither NVML nor the kernel lists it: it is a simulated node's, or was removed
};

/// Not thread-safe.
class CardInMigMode {
 public:
  /// Finds the card. Returns unavailable if it is here and can't be reached, or if the driver does not answer.
  sdk::Status find(const std::string& uuid, Presence& presence);
  /// Reads whether it is in MIG mode now; unavailable if the driver does not report it. A pending mode does not count.
  /// Requires that it is here, as all that follow.
  sdk::Status readMode(bool& isInMigMode) const;
  /// Reads the profiles and the instances; unavailable if the driver does not report them.
  sdk::Status read();

  const std::string& uuid() const { return uuid_; }
  const std::vector<nvidia::Profile>& profiles() const { return profiles_; }
  const std::vector<nvidia::Instance>& instances() const { return instances_; }
  /// Returns the profile of that name, or null.
  const nvidia::Profile* profile(const std::string& name) const;
  /// Returns all slots of an instance, with the media engines if its profile has them.
  unsigned slotsOf(const nvidia::Instance& instance) const;

  // Each returns kSuccess or NVML's error. The instances above are not changed: read them again.
  nvidia::Return createGpuInstance(const nvidia::Profile& profile, unsigned start, unsigned& id);
  /// Creates a compute instance with all slices of the GPU instance.
  nvidia::Return createComputeInstance(const nvidia::Instance& instance);
  /// Destroys its compute instances, then the instance.
  nvidia::Return destroy(const nvidia::Instance& instance);
  /// Returns the pids of the processes in an instance, for messages: "12, 4711"; empty = none, or unknown.
  std::string processesIn(const nvidia::Instance& instance) const;

 private:
  std::string uuid_;
  std::unique_ptr<nvidia::Library> nvml_;
  nvidia::Device device_ = nullptr;
  std::vector<nvidia::Profile> profiles_;
  std::vector<nvidia::Instance> instances_;
};

}  // namespace egpu::mig
