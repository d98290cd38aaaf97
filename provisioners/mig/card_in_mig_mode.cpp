#include "provisioners/mig/card_in_mig_mode.h"

#include <algorithm>
#include <array>

#include "provisioners/nvidia/cards.h"
#include "provisioners/nvidia/system.h"

namespace egpu::mig {

using nvidia::kSuccess;
using nvidia::Library;
using nvidia::Return;
using sdk::Status;

namespace {

bool kernelHas(const std::string& uuid) {
  const auto cards = nvidia::kernelCards();
  return std::any_of(cards.begin(), cards.end(), [&](const auto& card) { return card.uuid == uuid; });
}

constexpr std::size_t kMaxProcesses = 256;

}  // namespace

Status CardInMigMode::find(const std::string& uuid, Presence& presence) {
  uuid_ = uuid;
  presence = Presence::elsewhere;
  std::string why;
  bool absent = false;
  nvml_ = Library::open(why, absent);
  if (!nvml_) return absent && !kernelHas(uuid) ? sdk::ok() : sdk::unavailable(why);
  unsigned count = 0;
  if (const Return answer = Library::call(nvml_->nvmlDeviceGetCount_v2, &count); answer != kSuccess)
    return sdk::unavailable("NVIDIA's driver does not count its cards: " + nvidia::inWords(answer));
  for (unsigned i = 0; i < std::min(count, nvidia::kMaxCards); ++i) {
    nvidia::Device device = nullptr;
    std::array<char, nvidia::kTextSize + 1> text{};
    if (Library::call(nvml_->nvmlDeviceGetHandleByIndex_v2, i, &device) != kSuccess ||
        Library::call(nvml_->nvmlDeviceGetUUID, device, text.data(), nvidia::kTextSize) != kSuccess ||
        uuid != text.data())
      continue;
    device_ = device;
    presence = Presence::here;
    return sdk::ok();
  }
  return kernelHas(uuid) ? sdk::unavailable("NVIDIA's driver does not reach card " + uuid) : sdk::ok();
}

Status CardInMigMode::readMode(bool& isInMigMode) const {
  unsigned current = 0, pending = 0;
  const Return answer = Library::call(nvml_->nvmlDeviceGetMigMode, device_, &current, &pending);
  isInMigMode = answer == kSuccess && current == nvidia::kMigEnabled;
  if (answer == kSuccess || answer == nvidia::kNotSupported || answer == nvidia::kFunctionNotFound) return sdk::ok();
  return sdk::unavailable("card " + uuid_ + ": its MIG mode is unknown: " + nvidia::inWords(answer));
}

Status CardInMigMode::read() {
  if (profiles_.empty()) {
    std::string why;
    profiles_ = nvidia::readProfiles(*nvml_, device_, why);
    if (profiles_.empty()) return sdk::unavailable("card " + uuid_ + ": " + why);
  }
  instances_.clear();
  if (const Return answer = nvidia::readInstances(*nvml_, device_, profiles_, false, instances_); answer != kSuccess)
    return sdk::unavailable("card " + uuid_ + ": its instances can't be listed: " + nvidia::inWords(answer));
  return sdk::ok();
}

const nvidia::Profile* CardInMigMode::profile(const std::string& name) const {
  const auto at = std::find_if(profiles_.begin(), profiles_.end(), [&](const auto& p) { return p.name == name; });
  return at == profiles_.end() ? nullptr : &*at;
}

unsigned CardInMigMode::slotsOf(const nvidia::Instance& instance) const {
  const auto profile = std::find_if(profiles_.begin(), profiles_.end(),
                                    [&](const nvidia::Profile& p) { return p.id == instance.profileId; });
  return nvidia::slotsOf(instance) | (profile != profiles_.end() && profile->media ? nvidia::kMediaSlot : 0);
}

Return CardInMigMode::createGpuInstance(const nvidia::Profile& profile, unsigned start, unsigned& id) {
  const nvidia::InstancePlacement placement{start, profile.size};
  nvidia::GpuInstance instance = nullptr;
  if (const Return answer =
          Library::call(nvml_->nvmlDeviceCreateGpuInstanceWithPlacement, device_, profile.id, &placement, &instance);
      answer != kSuccess)
    return answer;
  nvidia::GpuInstanceInfo info{};
  const Return answer = Library::call(nvml_->nvmlGpuInstanceGetInfo, instance, &info);
  id = info.id;
  return answer;
}

Return CardInMigMode::createComputeInstance(const nvidia::Instance& instance) {
  const auto profile = std::find_if(profiles_.begin(), profiles_.end(),
                                    [&](const nvidia::Profile& p) { return p.id == instance.profileId; });
  if (profile == profiles_.end()) return nvidia::kNotFound;
  for (unsigned number = 0; number < nvidia::kMaxComputeProfiles; ++number) {
    nvidia::ComputeProfile info{};
    if (Library::call(nvml_->nvmlGpuInstanceGetComputeInstanceProfileInfo, instance.handle, number,
                      nvidia::kSharedEngines, &info) != kSuccess ||
        info.sliceCount != profile->compute)
      continue;
    nvidia::ComputeInstance created = nullptr;
    return Library::call(nvml_->nvmlGpuInstanceCreateComputeInstance, instance.handle, info.id, &created);
  }
  return nvidia::kNotSupported;
}

Return CardInMigMode::destroy(const nvidia::Instance& instance) {
  for (const auto& part : instance.parts)
    if (const Return answer = Library::call(nvml_->nvmlComputeInstanceDestroy, part.handle); answer != kSuccess)
      return answer;
  return Library::call(nvml_->nvmlGpuInstanceDestroy, instance.handle);
}

std::string CardInMigMode::processesIn(const nvidia::Instance& instance) const {
  std::vector<nvidia::ProcessInfo> all(kMaxProcesses);
  auto count = static_cast<unsigned>(all.size());
  if (Library::call(nvml_->nvmlDeviceGetComputeRunningProcesses_v3, device_, &count, all.data()) != kSuccess) return {};
  all.resize(std::min<std::size_t>(count, all.size()));
  std::string out;
  for (const auto& process : all)
    if (process.gpuInstance == instance.id) out += (out.empty() ? "" : ", ") + std::to_string(process.pid);
  return out;
}

}  // namespace egpu::mig
