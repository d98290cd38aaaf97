#include "provisioners/nvidia/mig/profiles.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace egpu::nvidia {
namespace {

constexpr std::int64_t kMiB = 1 << 20, kGiB = 1 << 30;
constexpr std::uint64_t kMaxMib = std::uint64_t{1} << 30;  // the maximum memory of a card, 1 PiB
constexpr unsigned kMaxSlices = 7;
constexpr std::size_t kMaxName = 63;
constexpr std::string_view kMedia = "+me";

/// Returns the size in a profile's name: that of the card, in eighths, rounded up to one that holds the instance.
std::int64_t gigabytesOf(std::int64_t card, std::int64_t instance) {
  const double eighths = std::ceil(8.0 * static_cast<double>(instance) / static_cast<double>(card)) / 8;
  const std::int64_t gigabytes = (card + kGiB - 1) / kGiB;
  return std::llround(eighths * static_cast<double>(gigabytes));
}

/// Returns the driver's name without "MIG "; empty if it can't name a profile.
std::string nameOf(const NamedInstanceProfile& info) {
  std::string name(info.name, std::find(std::begin(info.name), std::end(info.name), '\0'));
  constexpr std::string_view kPrefix = "MIG ";
  if (name.compare(0, kPrefix.size(), kPrefix) == 0) name.erase(0, kPrefix.size());
  const auto fits = [](unsigned char c) {
    return std::islower(c) || std::isdigit(c) || c == '.' || c == '+' || c == '-';
  };
  const bool valid = !name.empty() && name.size() <= kMaxName && std::isalnum(static_cast<unsigned char>(name[0])) &&
                     std::all_of(name.begin(), name.end(), fits);
  return valid ? name : std::string();
}

/// Reads the profile of this number without its placements; nullopt if the card has none, or an impossible one.
std::optional<Profile> readProfile(const Library& nvml, Device device, unsigned number, std::int64_t memory) {
  NamedInstanceProfile info{};
  info.version = kNamedInstanceProfile;
  Profile out;
  if (Library::call(nvml.nvmlDeviceGetGpuInstanceProfileInfoV, device, number, &info) == kSuccess) {
    out.name = nameOf(info);
  } else {  // drivers before 510
    InstanceProfile old{};
    if (Library::call(nvml.nvmlDeviceGetGpuInstanceProfileInfo, device, number, &old) != kSuccess) return std::nullopt;
    info.id = old.id, info.sliceCount = old.sliceCount, info.instanceCount = old.instanceCount;
    info.ofaCount = old.ofaCount, info.memorySizeMB = old.memorySizeMB;
  }
  if (info.sliceCount == 0 || info.sliceCount > kMaxSlices || info.memorySizeMB == 0 || info.memorySizeMB > kMaxMib)
    return std::nullopt;
  out.memory = static_cast<std::int64_t>(info.memorySizeMB) * kMiB;
  out.compute = info.sliceCount;
  out.id = info.id;
  out.maxCount = info.instanceCount;
  const bool named = number == kOneSliceWithMedia || number == kTwoSlicesWithMedia;
  if (out.name.empty() && memory > 0)
    out.name = std::to_string(out.compute) + "g." + std::to_string(gigabytesOf(memory, out.memory)) + "gb" +
               (named ? std::string(kMedia) : "");
  out.media = info.ofaCount > 0 || out.name.find(kMedia) != std::string::npos;
  return out.name.empty() ? std::nullopt : std::optional(out);
}

/// Reads the placements of a profile; returns false if the driver does not report possible ones.
bool readPlacements(const Library& nvml, Device device, Profile& profile) {
  std::array<InstancePlacement, 64> all{};
  unsigned count = 0;
  // Without an array it only counts; with one it does not take its size into account.
  if (Library::call(nvml.nvmlDeviceGetGpuInstancePossiblePlacements_v2, device, profile.id,
                    static_cast<InstancePlacement*>(nullptr), &count) != kSuccess ||
      count == 0 || count > all.size() ||
      Library::call(nvml.nvmlDeviceGetGpuInstancePossiblePlacements_v2, device, profile.id, all.data(), &count) !=
          kSuccess ||
      count > all.size())
    return false;
  profile.size = all[0].size;
  for (unsigned i = 0; i < count; ++i) {
    const InstancePlacement& each = all[i];
    if (each.size != profile.size || each.size == 0 || each.size > kMemorySlots ||
        each.start + each.size > kMemorySlots)
      return false;
    profile.starts |= 1u << each.start;
  }
  return true;
}

}  // namespace

std::vector<Profile> readProfiles(const Library& nvml, Device device, std::string& why) {
  std::vector<Profile> out;
  Memory memory{};  // with the reserve of the driver, as in the driver's names
  Library::call(nvml.nvmlDeviceGetMemoryInfo, device, &memory);
  const auto total = memory.total / kMiB <= kMaxMib ? static_cast<std::int64_t>(memory.total) : 0;
  for (unsigned number = 0; number < kMaxInstanceProfiles; ++number) {
    auto profile = readProfile(nvml, device, number, total);
    if (!profile) continue;
    const auto same = [&](const Profile& other) { return other.name == profile->name || other.id == profile->id; };
    if (std::any_of(out.begin(), out.end(), same)) continue;
    if (readPlacements(nvml, device, *profile))
      out.push_back(std::move(*profile));
    else if (why.empty())
      why = "the driver reports no possible placements of profile " + profile->name;
  }
  if (out.empty() && why.empty()) why = "the driver reports no profiles of its instances";
  return out;
}

std::optional<std::vector<unsigned>> startsOf(const Profile& profile, unsigned slots) {
  std::vector<unsigned> out;
  unsigned left = slots & (kMediaSlot - 1);
  for (unsigned start = 0; start < kMemorySlots && profile.size > 0; ++start) {
    if ((left >> start & 1u) == 0) continue;
    const unsigned mine = profile.slotsFrom(start) & (kMediaSlot - 1);
    if ((left & mine) != mine || (profile.starts >> start & 1u) == 0) return std::nullopt;
    left &= ~mine;
    out.push_back(start);
  }
  const bool media = (slots & kMediaSlot) != 0;
  if (out.empty() || left != 0 || media != profile.media || (media && out.size() > 1)) return std::nullopt;
  return out;
}

std::string slotsText(unsigned slots) {
  std::string out;
  for (unsigned slot = 0; slot < kMemorySlots; ++slot)
    if ((slots >> slot & 1u) != 0) out += (out.empty() ? "" : ", ") + std::to_string(slot);
  return out + ((slots & kMediaSlot) != 0 ? (out.empty() ? "" : " and ") + std::string("the media engines") : "");
}

}  // namespace egpu::nvidia
