// MIG instances on a card: GPU instances with their placement, and the compute instances in them.
#pragma once

#include <string>
#include <vector>

#include "provisioners/nvidia/library.h"
#include "provisioners/nvidia/mig/profiles.h"

namespace egpu::nvidia {

/// A compute instance.
struct ComputePart {
  ComputeInstance handle = nullptr;
  unsigned id = 0;
};

/// A GPU instance as it exists on the card.
struct Instance {
  GpuInstance handle = nullptr;
  unsigned id = 0, profileId = 0;
  InstancePlacement placement{};
  std::vector<ComputePart> parts;
  std::string uuid;  ///< uuid of the MIG device of its only compute instance; empty = it has none, or several
};

/// Reads the GPU instances of a card. Returns kSuccess, or NVML's error. Their compute instances and uuids are read
/// too, unless `placementsOnly`.
Return readInstances(const Library& nvml, Device device, const std::vector<Profile>& profiles, bool placementsOnly,
                     std::vector<Instance>& out);

/// Returns the memory slots of a GPU instance, one bit each.
unsigned slotsOf(const Instance& instance);

/// Returns the commands that remove a GPU instance.
std::string removalOf(const std::string& card, const Instance& instance);

}  // namespace egpu::nvidia
