// Profiles of the MIG instances of a card, as its driver reports them. No table is built in, because it differs between
// card models and drivers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "provisioners/nvidia/library.h"

namespace egpu::nvidia {

inline constexpr unsigned kMemorySlots = 8;                 ///< maximum number of memory slots of a card
inline constexpr unsigned kMediaSlot = 1u << kMemorySlots;  ///< bit of the media engines in a set of slots

struct Profile {
  std::string name;         ///< "1g.5gb", "1g.5gb+me"
  std::int64_t memory = 0;  ///< bytes of an instance
  unsigned compute = 0;     ///< compute slices of an instance
  unsigned size = 0;        ///< memory slots of an instance
  unsigned starts = 0;      ///< bits: memory slots at which an instance can start
  bool media = false;       ///< an instance has the media engines
  unsigned id = 0;          ///< NVML's id
  unsigned maxCount = 0;    ///< maximum number of instances on the card

  /// Returns the slots of an instance that starts there, one bit each.
  unsigned slotsFrom(unsigned start) const { return (((1u << size) - 1) << start) | (media ? kMediaSlot : 0); }
};

/// Reads the profiles of a card in MIG mode. Sets `why` if the driver does not report them, or the placements of one.
std::vector<Profile> readProfiles(const Library& nvml, Device device, std::string& why);

/// Returns the starts of the instances that occupy these slots; nullopt if these are not the slots of instances of the
/// profile.
std::optional<std::vector<unsigned>> startsOf(const Profile& profile, unsigned slots);

/// Returns slots for messages: "0, 1".
std::string slotsText(unsigned slots);

}  // namespace egpu::nvidia
