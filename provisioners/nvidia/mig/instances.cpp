#include "provisioners/nvidia/mig/instances.h"

#include <algorithm>
#include <array>
#include <utility>

#include "provisioners/nvidia/system.h"

namespace egpu::nvidia {
namespace {

constexpr std::size_t kMaxOfProfile = 64;  // instances of one profile; a card has at most 8
constexpr unsigned kMaxMigDevices = 64;

/// True for the answer to a handle of an instance that was destroyed after it was listed.
bool isGone(Return answer) { return answer == kNotFound || answer == kInvalidArgument; }

/// Lists handles of one profile.
template <class Handle, class List>
Return listed(List list, std::vector<Handle>& out) {
  std::array<Handle, kMaxOfProfile> all{};
  unsigned count = static_cast<unsigned>(all.size());
  const Return answer = list(all.data(), &count);
  if (answer == kSuccess) out.insert(out.end(), all.begin(), all.begin() + std::min<std::size_t>(count, all.size()));
  return answer;
}

/// Reads the compute instances in a GPU instance.
Return readParts(const Library& nvml, Instance& instance) {
  for (unsigned number = 0; number < kMaxComputeProfiles; ++number) {
    ComputeProfile profile{};
    if (Library::call(nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo, instance.handle, number, kSharedEngines,
                      &profile) != kSuccess)
      continue;
    std::vector<ComputeInstance> all;
    const Return answer = listed(
        [&](ComputeInstance* to, unsigned* count) {
          return Library::call(nvml.nvmlGpuInstanceGetComputeInstances, instance.handle, profile.id, to, count);
        },
        all);
    if (answer != kSuccess) return answer;
    for (ComputeInstance handle : all) {
      ComputeInstanceInfo info{};
      const Return why = Library::call(nvml.nvmlComputeInstanceGetInfo_v2, handle, &info);
      if (isGone(why)) continue;
      if (why != kSuccess) return why;
      const auto known = [&](const ComputePart& part) { return part.id == info.id; };
      if (std::none_of(instance.parts.begin(), instance.parts.end(), known))
        instance.parts.push_back({handle, info.id});
    }
  }
  return kSuccess;
}

/// Adds an instance, unless it is known from another profile.
Return readInstance(const Library& nvml, GpuInstance handle, bool placementsOnly, std::vector<Instance>& out) {
  GpuInstanceInfo info{};
  if (const Return why = Library::call(nvml.nvmlGpuInstanceGetInfo, handle, &info); why != kSuccess) return why;
  Instance instance{handle, info.id, info.profileId, info.placement, {}, {}};
  const auto known = [&](const Instance& other) { return other.id == info.id; };
  if (std::any_of(out.begin(), out.end(), known)) return kSuccess;
  if (!placementsOnly)
    if (const Return why = readParts(nvml, instance); why != kSuccess) return why;
  out.push_back(std::move(instance));
  return kSuccess;
}

/// Sets the uuids of the instances that have one compute instance.
void readUuids(const Library& nvml, Device device, std::vector<Instance>& instances) {
  unsigned count = 0;
  if (Library::call(nvml.nvmlDeviceGetMaxMigDeviceCount, device, &count) != kSuccess) return;
  for (unsigned i = 0; i < std::min(count, kMaxMigDevices); ++i) {
    Device mig = nullptr;
    unsigned gpuInstance = 0;
    std::array<char, kTextSize + 1> uuid{};
    if (Library::call(nvml.nvmlDeviceGetMigDeviceHandleByIndex, device, i, &mig) != kSuccess ||
        Library::call(nvml.nvmlDeviceGetGpuInstanceId, mig, &gpuInstance) != kSuccess ||
        Library::call(nvml.nvmlDeviceGetUUID, mig, uuid.data(), kTextSize) != kSuccess)
      continue;
    for (Instance& instance : instances)
      if (instance.id == gpuInstance && instance.parts.size() == 1 && isUuid(uuid.data())) instance.uuid = uuid.data();
  }
}

}  // namespace

Return readInstances(const Library& nvml, Device device, const std::vector<Profile>& profiles, bool placementsOnly,
                     std::vector<Instance>& out) {
  for (const Profile& profile : profiles) {
    std::vector<GpuInstance> all;
    const Return answer = listed(
        [&](GpuInstance* to, unsigned* count) {
          return Library::call(nvml.nvmlDeviceGetGpuInstances, device, profile.id, to, count);
        },
        all);
    if (answer != kSuccess) return answer;
    for (GpuInstance handle : all) {
      const Return why = readInstance(nvml, handle, placementsOnly, out);
      if (why != kSuccess && !isGone(why)) return why;
    }
  }
  if (!placementsOnly) readUuids(nvml, device, out);
  return kSuccess;
}

unsigned slotsOf(const Instance& instance) {
  const auto [start, size] = instance.placement;
  if (start >= kMemorySlots || size > kMemorySlots) return kMediaSlot - 1;  // an impossible answer occupies the card
  return (((1u << size) - 1) << start) & (kMediaSlot - 1);
}

std::string removalOf(const std::string& card, const Instance& instance) {
  const std::string of = " -i " + card + " -gi " + std::to_string(instance.id);
  return "nvidia-smi mig -dci" + of + "; nvidia-smi mig -dgi" + of;
}

}  // namespace egpu::nvidia
