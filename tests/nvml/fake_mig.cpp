// MIG functions of the fake NVML. The node file describes the profiles; the instances are in a file of their own
// (mig_state.h), so that all processes agree, and the instances of a killed process stay.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "provisioners/nvidia/mig/nvml_mig.h"
#include "tests/nvml/mig_state.h"
#include "tests/nvml/request.h"

namespace egpu::nvidia::testing {
namespace {

/// Slices of the compute instance profiles by their number, as NVML's: 1, 2, 3, 4, 7, 8, 6 slices.
constexpr unsigned kSlicesOfProfile[] = {1, 2, 3, 4, 7, 8, 6};

/// Handles: a tag, the card's place, and the ids of the GPU instance and the compute instance.
std::size_t packed(std::size_t tag, uint32_t device, uint32_t gpuInstance, uint32_t computeInstance) {
  return tag << 16 | std::size_t{device} << 10 | std::size_t{gpuInstance} << 4 | computeInstance;
}
constexpr std::size_t kMigDevice = 1, kGpuInstance = 2, kComputeInstance = 3;

struct Ids {
  uint32_t device = 0, gpuInstance = 0, computeInstance = 0;
};
template <class Handle>
std::optional<Ids> idsOf(Handle handle, std::size_t tag) {
  const auto bits = reinterpret_cast<std::size_t>(handle);
  if (bits >> 16 != tag) return std::nullopt;
  return Ids{static_cast<uint32_t>(bits >> 10 & 0x3f), static_cast<uint32_t>(bits >> 4 & 0x3f),
             static_cast<uint32_t>(bits & 0xf)};
}
GpuInstance handleOf(const FakeInstance& instance) {
  return reinterpret_cast<GpuInstance>(packed(kGpuInstance, instance.device, instance.id, 0));
}

/// Announces a step that changes instances to a test that wants to die there.
void step(const char* name) {
  using Step = void (*)(const char*);
  if (const auto announce = reinterpret_cast<Step>(dlsym(RTLD_DEFAULT, "egpuTestStep"))) announce(name);
}

/// Begins a function for a card in MIG mode.
NvmlCall beginMig(const char* function, Device device) {
  NvmlCall r = begin(function, device);
  if (r.answer == kSuccess && r.device->mig != static_cast<int64_t>(kMigEnabled)) r.answer = kNotSupported;
  return r;
}
NvmlCall beginInstance(const char* function, const std::optional<Ids>& ids) {
  if (!ids) return {kInvalidArgument, nullptr, nullptr};
  return beginMig(function, testing::handleOf(ids->device));
}

const FakeProfile* byNumber(const FakeDevice& device, unsigned number) {
  const auto at = std::find_if(device.profiles.begin(), device.profiles.end(),
                               [&](const FakeProfile& p) { return p.number == number; });
  return at == device.profiles.end() ? nullptr : &*at;
}
const FakeProfile* byId(const FakeDevice& device, unsigned id) {
  const auto at =
      std::find_if(device.profiles.begin(), device.profiles.end(), [&](const FakeProfile& p) { return p.id == id; });
  return at == device.profiles.end() ? nullptr : &*at;
}

/// Sets the members that both versions of a profile's description have.
template <class Info>
void fill(const FakeProfile& profile, Info& out) {
  out.id = static_cast<unsigned>(profile.id);
  out.sliceCount = static_cast<unsigned>(profile.slices);
  out.instanceCount = static_cast<unsigned>(profile.count);
  out.multiprocessorCount = static_cast<unsigned>(profile.sms);
  out.ofaCount = static_cast<unsigned>(profile.ofa);
  out.memorySizeMB = profile.memoryMib;
}

Return profileInfo(Device device, unsigned number, InstanceProfile* out) {
  const NvmlCall r = beginMig("nvmlDeviceGetGpuInstanceProfileInfo", device);
  if (r.answer != kSuccess) return r.answer;
  const FakeProfile* profile = byNumber(*r.device, number);
  if (!profile) return kNotSupported;
  *out = {};
  fill(*profile, *out);
  return kSuccess;
}

Return profileInfoV(Device device, unsigned number, NamedInstanceProfile* out) {
  const NvmlCall r = beginMig("nvmlDeviceGetGpuInstanceProfileInfoV", device);
  if (r.answer != kSuccess) return r.answer;
  if (out->version != kNamedInstanceProfile) return kInvalidArgument;
  const FakeProfile* profile = byNumber(*r.device, number);
  if (!profile) return kNotSupported;
  *out = {};
  out->version = kNamedInstanceProfile;
  fill(*profile, *out);
  std::snprintf(out->name, sizeof out->name, "MIG %s", profile->name.c_str());
  if (r.node->unterminated) std::memset(out->name, 'x', sizeof out->name);
  return kSuccess;
}

Return possiblePlacements(Device device, unsigned id, InstancePlacement* out, unsigned* count) {
  const NvmlCall r = beginMig("nvmlDeviceGetGpuInstancePossiblePlacements_v2", device);
  if (r.answer != kSuccess) return r.answer;
  const FakeProfile* profile = byId(*r.device, id);
  if (!profile) return kInvalidArgument;
  *count = static_cast<unsigned>(profile->starts.size());
  for (std::size_t i = 0; out && i < profile->starts.size(); ++i)
    out[i] = {static_cast<unsigned>(profile->starts[i]), static_cast<unsigned>(profile->size)};
  return kSuccess;
}

/// True if the card has resources for a further instance.
bool fits(const FakeDevice& device, uint32_t place, const FakeProfile& profile, const InstancePlacement& at,
          const FakeInstances& now) {
  uint64_t slices = profile.slices, ofProfile = 1, ofa = profile.ofa;
  for (const FakeInstance& other : now.all) {
    if (other.exists == 0 || other.device != place) continue;
    if (other.start < at.start + at.size && at.start < other.start + other.size) return false;
    slices += other.slices;
    ofProfile += other.profileId == profile.id ? 1 : 0;
    const FakeProfile* its = byId(device, other.profileId);
    ofa += its ? its->ofa : 0;
  }
  return slices <= device.computeSlices && ofProfile <= profile.count && ofa <= 1;
}

/// Creates a GPU instance with the lowest free id, from 1.
Return create(const NvmlCall& r, uint32_t place, const FakeProfile& profile, const InstancePlacement& at,
              GpuInstance* out) {
  Return answer = kInsufficientResources;
  const bool good = withFakeInstances([&](FakeInstances& now) {
    if (!fits(*r.device, place, profile, at, now)) return false;
    const auto room =
        std::find_if(now.all.begin(), now.all.end(), [](const FakeInstance& each) { return each.exists == 0; });
    if (room == now.all.end()) return false;
    uint32_t id = 1;
    while (now.find(place, id) != nullptr) ++id;
    *room = {1, place, id, static_cast<uint32_t>(profile.id), at.start, at.size, static_cast<uint32_t>(profile.slices),
             {}};
    *out = handleOf(*room);
    answer = kSuccess;
    return true;
  });
  return good ? answer : kNoPermission;
}

Return createWithPlacement(Device device, unsigned id, const InstancePlacement* at, GpuInstance* out) {
  step("nvmlDeviceCreateGpuInstanceWithPlacement");
  const NvmlCall r = beginMig("nvmlDeviceCreateGpuInstanceWithPlacement", device);
  if (r.answer != kSuccess) return r.answer;
  const FakeProfile* profile = byId(*r.device, id);
  if (!profile || at->size != profile->size ||
      std::find(profile->starts.begin(), profile->starts.end(), at->start) == profile->starts.end())
    return kInvalidArgument;
  const Return answer = create(r, static_cast<uint32_t>(placeOf(device)), *profile, *at, out);
  step("nvmlDeviceCreateGpuInstanceWithPlacement");
  return answer;
}

/// True if a process runs in the instance.
bool isUsed(const FakeDevice& device, uint32_t gpuInstance) {
  return std::any_of(device.processes.begin(), device.processes.end(),
                     [&](const FakeProcess& p) { return p.gpuInstance == static_cast<int64_t>(gpuInstance); });
}

/// Calls `change` with the instance, and writes the state if it answers kSuccess. Null answers NOT_FOUND.
template <class Change>
Return changed(const Ids& ids, const Change& change) {
  Return answer = kNotFound;
  const bool good = withFakeInstances([&](FakeInstances& now) {
    FakeInstance* instance = now.find(ids.device, ids.gpuInstance);
    if (instance) answer = change(*instance);
    return instance && answer == kSuccess;
  });
  return good ? answer : kNoPermission;
}
/// Calls `read` with the instance.
template <class Read>
Return looked(const Ids& ids, const Read& read) {
  Return answer = kNotFound;
  withFakeInstances([&](FakeInstances& now) {
    if (const FakeInstance* instance = now.find(ids.device, ids.gpuInstance)) answer = read(*instance);
    return false;
  });
  return answer;
}

Return destroyGpuInstance(GpuInstance handle) {
  step("nvmlGpuInstanceDestroy");
  const auto ids = idsOf(handle, kGpuInstance);
  const NvmlCall r = beginInstance("nvmlGpuInstanceDestroy", ids);
  if (r.answer != kSuccess) return r.answer;
  const Return answer = changed(*ids, [&](FakeInstance& instance) {
    const bool empty = std::all_of(instance.compute.begin(), instance.compute.end(), [](auto n) { return n == 0; });
    if (!empty || isUsed(*r.device, instance.id)) return kInUse;
    instance = {};
    return kSuccess;
  });
  step("nvmlGpuInstanceDestroy");
  return answer;
}

Return gpuInstances(Device device, unsigned id, GpuInstance* out, unsigned* count) {
  const NvmlCall r = beginMig("nvmlDeviceGetGpuInstances", device);
  if (r.answer != kSuccess) return r.answer;
  if (!byId(*r.device, id)) return kInvalidArgument;
  *count = 0;
  withFakeInstances([&](FakeInstances& now) {
    for (const FakeInstance& each : now.all)
      if (each.exists != 0 && each.device == placeOf(device) && each.profileId == id) out[(*count)++] = handleOf(each);
    return false;
  });
  return kSuccess;
}

Return gpuInstanceById(Device device, unsigned id, GpuInstance* out) {
  const NvmlCall r = beginMig("nvmlDeviceGetGpuInstanceById", device);
  if (r.answer != kSuccess) return r.answer;
  return looked({static_cast<uint32_t>(placeOf(device)), id, 0}, [&](const FakeInstance& instance) {
    *out = handleOf(instance);
    return kSuccess;
  });
}

Return gpuInstanceInfo(GpuInstance handle, GpuInstanceInfo* out) {
  const auto ids = idsOf(handle, kGpuInstance);
  const NvmlCall r = beginInstance("nvmlGpuInstanceGetInfo", ids);
  if (r.answer != kSuccess) return r.answer;
  return looked(*ids, [&](const FakeInstance& instance) {
    *out = {testing::handleOf(ids->device), instance.id, instance.profileId, {instance.start, instance.size}};
    return kSuccess;
  });
}

Return computeProfileInfo(GpuInstance handle, unsigned number, unsigned engines, ComputeProfile* out) {
  const auto ids = idsOf(handle, kGpuInstance);
  const NvmlCall r = beginInstance("nvmlGpuInstanceGetComputeInstanceProfileInfo", ids);
  if (r.answer != kSuccess) return r.answer;
  if (engines != kSharedEngines) return kInvalidArgument;
  return looked(*ids, [&](const FakeInstance& instance) -> Return {
    if (number >= std::size(kSlicesOfProfile) || kSlicesOfProfile[number] > instance.slices) return kNotSupported;
    *out = {};
    out->id = number;
    out->sliceCount = kSlicesOfProfile[number];
    out->instanceCount = instance.slices / out->sliceCount;
    return kSuccess;
  });
}

Return createComputeInstance(GpuInstance handle, unsigned profile, ComputeInstance* out) {
  step("nvmlGpuInstanceCreateComputeInstance");
  const auto ids = idsOf(handle, kGpuInstance);
  const NvmlCall r = beginInstance("nvmlGpuInstanceCreateComputeInstance", ids);
  if (r.answer != kSuccess) return r.answer;
  const Return answer = changed(*ids, [&](FakeInstance& instance) -> Return {
    if (profile >= std::size(kSlicesOfProfile)) return kInvalidArgument;
    unsigned slices = kSlicesOfProfile[profile];
    for (const unsigned other : instance.compute) slices += other;
    const auto room = std::find(instance.compute.begin(), instance.compute.end(), 0U);
    if (slices > instance.slices || room == instance.compute.end()) return kInsufficientResources;
    *room = kSlicesOfProfile[profile];
    *out = reinterpret_cast<ComputeInstance>(packed(kComputeInstance, ids->device, ids->gpuInstance,
                                                    static_cast<uint32_t>(room - instance.compute.begin())));
    return kSuccess;
  });
  step("nvmlGpuInstanceCreateComputeInstance");
  return answer;
}

Return destroyComputeInstance(ComputeInstance handle) {
  step("nvmlComputeInstanceDestroy");
  const auto ids = idsOf(handle, kComputeInstance);
  const NvmlCall r = beginInstance("nvmlComputeInstanceDestroy", ids);
  if (r.answer != kSuccess) return r.answer;
  const Return answer = changed(*ids, [&](FakeInstance& instance) -> Return {
    if (instance.compute.at(ids->computeInstance) == 0) return kNotFound;
    if (isUsed(*r.device, instance.id)) return kInUse;
    instance.compute.at(ids->computeInstance) = 0;
    return kSuccess;
  });
  step("nvmlComputeInstanceDestroy");
  return answer;
}

Return computeInstances(GpuInstance handle, unsigned profile, ComputeInstance* out, unsigned* count) {
  const auto ids = idsOf(handle, kGpuInstance);
  const NvmlCall r = beginInstance("nvmlGpuInstanceGetComputeInstances", ids);
  if (r.answer != kSuccess) return r.answer;
  if (profile >= std::size(kSlicesOfProfile)) return kInvalidArgument;
  *count = 0;
  return looked(*ids, [&](const FakeInstance& instance) {
    for (uint32_t id = 0; id < instance.compute.size(); ++id)
      if (instance.compute.at(id) == kSlicesOfProfile[profile])
        out[(*count)++] =
            reinterpret_cast<ComputeInstance>(packed(kComputeInstance, ids->device, ids->gpuInstance, id));
    return kSuccess;
  });
}

Return computeInstanceById(GpuInstance handle, unsigned id, ComputeInstance* out) {
  const auto ids = idsOf(handle, kGpuInstance);
  const NvmlCall r = beginInstance("nvmlGpuInstanceGetComputeInstanceById", ids);
  if (r.answer != kSuccess) return r.answer;
  return looked(*ids, [&](const FakeInstance& instance) -> Return {
    if (id >= instance.compute.size() || instance.compute.at(id) == 0) return kNotFound;
    *out = reinterpret_cast<ComputeInstance>(packed(kComputeInstance, ids->device, ids->gpuInstance, id));
    return kSuccess;
  });
}

Return computeInstanceInfo(ComputeInstance handle, ComputeInstanceInfo* out) {
  const auto ids = idsOf(handle, kComputeInstance);
  const NvmlCall r = beginInstance("nvmlComputeInstanceGetInfo_v2", ids);
  if (r.answer != kSuccess) return r.answer;
  return looked(*ids, [&](const FakeInstance& instance) -> Return {
    const unsigned slices = instance.compute.at(ids->computeInstance);
    if (slices == 0) return kNotFound;
    const auto* profile = std::find(std::begin(kSlicesOfProfile), std::end(kSlicesOfProfile), slices);
    *out = {testing::handleOf(ids->device),
            handleOf(instance),
            ids->computeInstance,
            static_cast<unsigned>(profile - std::begin(kSlicesOfProfile)),
            {0, slices}};
    return kSuccess;
  });
}

// MIG devices: the compute instances as devices of their own.

Return maxMigDevices(Device device, unsigned* count) {
  const NvmlCall r = begin("nvmlDeviceGetMaxMigDeviceCount", device);
  const bool enabled = r.answer == kSuccess && r.device->mig == static_cast<int64_t>(kMigEnabled);
  if (r.answer == kSuccess) *count = enabled ? static_cast<unsigned>(r.device->computeSlices) : 0;
  return r.answer;
}

Return migDevice(Device device, unsigned index, Device* out) {
  const NvmlCall r = beginMig("nvmlDeviceGetMigDeviceHandleByIndex", device);
  if (r.answer != kSuccess) return r.answer;
  const auto all = visibleMigDevices(*r.node, placeOf(device));
  if (index >= all.size()) return kNotFound;
  *out = handleOfMigDevice(placeOf(device), all[index]);
  return kSuccess;
}

Return idOf(const char* function, Device handle, uint32_t Ids::*id, unsigned* out) {
  const NvmlCall r = begin(function);
  const auto ids = idsOf(handle, kMigDevice);
  if (r.answer != kSuccess || !ids) return r.answer != kSuccess ? r.answer : kNotSupported;
  *out = (*ids).*id;
  return kSuccess;
}
Return gpuInstanceId(Device handle, unsigned* out) {
  return idOf("nvmlDeviceGetGpuInstanceId", handle, &Ids::gpuInstance, out);
}
Return computeInstanceId(Device handle, unsigned* out) {
  return idOf("nvmlDeviceGetComputeInstanceId", handle, &Ids::computeInstance, out);
}
Return isMigHandle(Device handle, unsigned* out) {
  *out = isMigDevice(handle) ? 1 : 0;
  return begin("nvmlDeviceIsMigDeviceHandle").answer;
}
Return parentOf(Device handle, Device* out) {
  const auto ids = idsOf(handle, kMigDevice);
  if (!ids) return kInvalidArgument;
  *out = testing::handleOf(ids->device);
  return begin("nvmlDeviceGetDeviceHandleFromMigDeviceHandle").answer;
}

}  // namespace

std::string uuidOfMigDevice(Device handle) {
  const Node node = currentNode();
  const auto ids = idsOf(handle, kMigDevice);
  if (!node || !ids || ids->device >= node->devices.size()) return {};
  return uuidOfMigDevice(node->devices[ids->device].uuid, ids->gpuInstance, ids->computeInstance);
}

std::optional<FakeMigDevice> migDeviceOf(Device handle) {
  const Node node = currentNode();
  const auto ids = idsOf(handle, kMigDevice);
  if (!node || !ids || ids->device >= node->devices.size()) return std::nullopt;
  for (auto& each : visibleMigDevices(*node, ids->device))
    if (each.gpuInstance == ids->gpuInstance && each.computeInstance == ids->computeInstance) return each;
  return std::nullopt;
}

Device handleOfMigDevice(std::size_t place, const FakeMigDevice& device) {
  return reinterpret_cast<Device>(
      packed(kMigDevice, static_cast<uint32_t>(place), device.gpuInstance, device.computeInstance));
}

}  // namespace egpu::nvidia::testing

EXPORT(nvmlDeviceGetGpuInstanceProfileInfo, profileInfo)
EXPORT(nvmlDeviceGetGpuInstanceProfileInfoV, profileInfoV)
EXPORT(nvmlDeviceGetGpuInstancePossiblePlacements_v2, possiblePlacements)
EXPORT(nvmlDeviceCreateGpuInstanceWithPlacement, createWithPlacement)
EXPORT(nvmlGpuInstanceDestroy, destroyGpuInstance)
EXPORT(nvmlDeviceGetGpuInstances, gpuInstances)
EXPORT(nvmlDeviceGetGpuInstanceById, gpuInstanceById)
EXPORT(nvmlGpuInstanceGetInfo, gpuInstanceInfo)
EXPORT(nvmlGpuInstanceGetComputeInstanceProfileInfo, computeProfileInfo)
EXPORT(nvmlGpuInstanceCreateComputeInstance, createComputeInstance)
EXPORT(nvmlComputeInstanceDestroy, destroyComputeInstance)
EXPORT(nvmlGpuInstanceGetComputeInstances, computeInstances)
EXPORT(nvmlGpuInstanceGetComputeInstanceById, computeInstanceById)
EXPORT(nvmlComputeInstanceGetInfo_v2, computeInstanceInfo)
EXPORT(nvmlDeviceGetMaxMigDeviceCount, maxMigDevices)
EXPORT(nvmlDeviceGetMigDeviceHandleByIndex, migDevice)
EXPORT(nvmlDeviceGetGpuInstanceId, gpuInstanceId)
EXPORT(nvmlDeviceGetComputeInstanceId, computeInstanceId)
EXPORT(nvmlDeviceIsMigDeviceHandle, isMigHandle)
EXPORT(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, parentOf)
