// The choice of the slots for MIG instances on one card. An instance cannot be moved while it is in use, so its slots
// decide which later instances fit. The choice is the placement that loses the fewest other placements: the least
// Σ size of the profile, over all placements of all profiles that were possible before and are not afterwards. Pure.
//
//   A100, empty, profile 1g.5gb:
//     at slot 0   loses 1g at 0, 1g.10gb at 0, 2g at 0, 3g at 0, 4g at 0, 7g at 0
//     at slot 6   loses 1g at 6, 1g.10gb at 6, 3g at 4, 7g at 0: chosen, and 4g still fits
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/v1alpha/mig.h"

namespace egpu::scheduler::mig {

using v1alpha::MigProfile;
using v1alpha::Slots;

/// Profiles of a card, in the order in which its driver lists them.
using Profiles = std::vector<MigProfile>;

/// Returns the profile's name as request keys spell it: "1g.5gb.me" for "1g.5gb+me", because a key cannot have a '+'.
std::string keyOf(std::string_view profile);
/// Returns null if the card has no profile with this key.
const MigProfile* findProfile(const Profiles& profiles, std::string_view key);

/// Returns the loss of placements when these slots are used in addition to `used`.
int64_t placementLoss(const Profiles& profiles, Slots used, Slots added);

/// True if the card has free slots for the number of instances.
bool canPlace(const MigProfile& profile, int64_t instances, Slots used);

/// Chooses the slots of the instances, one after the other by least loss; ties: the lowest slot. Returns nullopt if
/// canPlace() is false.
std::optional<Slots> chooseSlots(const Profiles& profiles, const MigProfile& profile, int64_t instances, Slots used);

}  // namespace egpu::scheduler::mig
