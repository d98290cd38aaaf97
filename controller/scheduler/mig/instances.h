// Reads the MIG instances of a claim's request, and of an allocation. Internal to scheduler/.
#pragma once

#include <optional>
#include <string_view>

#include "controller/scheduler/mig/placement.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler::mig {

/// Provisioner of MIG instances.
inline constexpr std::string_view kProvisioner = "mig.provisioner.elasticgpu.io";

/// A requested number of instances as written.
struct InstancesEntry {
  std::string_view key;      ///< "elasticgpu.io/mig-1g.5gb"
  std::string_view profile;  ///< "1g.5gb"
  std::string_view text;     ///< "2"
};

/// Changes the request to one for these instances. Refuses a class that has no instances, and a class of instances
/// without an entry (nullopt).
std::optional<Refusal> readInstances(const std::optional<InstancesEntry>& entry, const v1alpha::ElasticGPUClass& cls,
                                     Request& request);

/// Returns the amount of instances on a card of this core.
Amount amountOf(const MigProfile& profile, int64_t instances, int64_t cardCore);

/// Returns the MIG instances of an allocation on a card with these profiles, with the key of their profile. The
/// amounts identify the profile. Profiles that differ only by the media engines are distinguished by the slots; without
/// slots, the profile without media engines is returned. Returns none for an allocation without instances.
MigInstances findInstances(const Profiles& profiles, int64_t cardCore, const Amount& charged);

}  // namespace egpu::scheduler::mig
