#include "controller/scheduler/mig/placement.h"

#include <algorithm>

namespace egpu::scheduler::mig {
namespace {

/// Adds instances at the lowest free slots. Returns nullopt if not all can be placed.
std::optional<Slots> firstFit(const MigProfile& profile, int64_t instances, Slots used) {
  Slots added;
  for (unsigned start = 0; start < Slots::kMemory && instances > 0; ++start) {
    if (!profile.fitsAt(start, used.with(added))) continue;
    added = added.with(profile.slotsFrom(start));
    --instances;
  }
  return instances > 0 ? std::nullopt : std::optional(added);
}

/// Returns the slots of one instance by least loss.
std::optional<Slots> leastLoss(const Profiles& profiles, const MigProfile& profile, Slots used) {
  std::optional<Slots> best;
  int64_t least = 0;
  for (unsigned start = 0; start < Slots::kMemory; ++start) {
    if (!profile.fitsAt(start, used)) continue;
    const Slots slots = profile.slotsFrom(start);
    const int64_t loss = placementLoss(profiles, used, slots);
    if (best && loss >= least) continue;
    best = slots;
    least = loss;
  }
  return best;
}

}  // namespace

std::string keyOf(std::string_view profile) {
  std::string key(profile);
  std::replace(key.begin(), key.end(), '+', '.');
  return key;
}

const MigProfile* findProfile(const Profiles& profiles, std::string_view key) {
  const auto found =
      std::find_if(profiles.begin(), profiles.end(), [key](const MigProfile& each) { return keyOf(each.name) == key; });
  return found == profiles.end() ? nullptr : &*found;
}

int64_t placementLoss(const Profiles& profiles, Slots used, Slots added) {
  const Slots after = used.with(added);
  int64_t loss = 0;
  for (const MigProfile& profile : profiles)
    for (unsigned start = 0; start < Slots::kMemory; ++start)
      if (profile.fitsAt(start, used) && !profile.fitsAt(start, after)) loss += profile.size;
  return loss;
}

bool canPlace(const MigProfile& profile, int64_t instances, Slots used) {
  return firstFit(profile, instances, used).has_value();
}

std::optional<Slots> chooseSlots(const Profiles& profiles, const MigProfile& profile, int64_t instances, Slots used) {
  Slots added;
  for (int64_t i = 0; i < instances; ++i) {
    const auto next = leastLoss(profiles, profile, used.with(added));
    // Where placements of one profile overlap each other, the least loss can leave too few of them.
    if (!next) return firstFit(profile, instances, used);
    added = added.with(*next);
  }
  return added;
}

}  // namespace egpu::scheduler::mig
