#include "provisioners/nvidia/mig/table.h"

#include <algorithm>
#include <utility>

#include "provisioners/nvidia/mig/instances.h"
#include "provisioners/nvidia/mig/records.h"

namespace egpu::nvidia {
namespace {

constexpr std::size_t kMaxNamed = 4;  // instances in a message

/// Returns the instances that no record names. Sets `why` if they can't be read.
std::vector<Instance> foreignInstances(const Library& nvml, Device device, const NvmlCard& card, std::string& why) {
  std::vector<Instance> out;
  // The instances come first: the record of each that is ours was written before it was created.
  if (const Return answer = readInstances(nvml, device, card.profiles, true, out); answer != kSuccess) {
    why = "its instances are unknown: " + inWords(answer);
    return {};
  }
  std::vector<InstanceRecord> records;
  if (const sdk::Status status = readRecords(card.uuid, records); status.code != EGPU_OK) {
    why = status.message;
    return {};
  }
  const std::string boot = bootId();
  std::erase_if(out, [&](const Instance& instance) {
    return std::any_of(records.begin(), records.end(),
                       [&](const InstanceRecord& record) { return partOf(record, instance, boot) != nullptr; });
  });
  return out;
}

bool same(const Instance& a, const Instance& b) {
  return a.id == b.id && a.profileId == b.profileId && a.placement.start == b.placement.start;
}

/// Returns the slots of an instance, with the media engines if its profile has them.
unsigned slotsOf(const Instance& instance, const std::vector<Profile>& profiles) {
  const auto profile =
      std::find_if(profiles.begin(), profiles.end(), [&](const Profile& p) { return p.id == instance.profileId; });
  return slotsOf(instance) | (profile != profiles.end() && profile->media ? kMediaSlot : 0);
}

}  // namespace

void readTable(const Library& nvml, Device device, NvmlCard& card, std::vector<std::string>& remarks) {
  const auto remark = [&](const std::string& what) {
    if (!what.empty()) remarks.push_back("card " + card.uuid + " is in MIG mode: " + what);
  };
  std::string omitted, why;
  card.profiles = readProfiles(nvml, device, omitted);
  remark(omitted);
  auto foreign = foreignInstances(nvml, device, card, why);
  if (!foreign.empty()) {
    // An instance that was destroyed in between has no record any more, and is not there at the second look.
    const auto again = foreignInstances(nvml, device, card, why);
    std::erase_if(foreign, [&](const Instance& instance) {
      return std::none_of(again.begin(), again.end(), [&](const Instance& other) { return same(instance, other); });
    });
  }
  remark(why);
  if (!why.empty()) return card.profiles.clear();
  unsigned taken = 0;
  for (const Instance& instance : foreign) taken |= slotsOf(instance, card.profiles);
  for (Profile& profile : card.profiles)
    for (unsigned start = 0; start < kMemorySlots; ++start)
      if ((profile.slotsFrom(start) & taken) != 0) profile.starts &= ~(1u << start);
  if (foreign.empty()) return;
  std::string named;
  for (std::size_t i = 0; i < std::min(foreign.size(), kMaxNamed); ++i)
    named += (i > 0 ? "; GPU instance " : "GPU instance ") + std::to_string(foreign[i].id) + " on slots " +
             slotsText(slotsOf(foreign[i], card.profiles));
  if (foreign.size() > kMaxNamed) named += "; and " + std::to_string(foreign.size() - kMaxNamed) + " more";
  card.notice = (card.notice.empty() ? "ForeignInstances: " : card.notice + "; ") + named +
                " were not created here; their slots are not offered. To offer them, end their programs and run " +
                removalOf(card.uuid, foreign.front());
}

}  // namespace egpu::nvidia
