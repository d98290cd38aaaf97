#include "provisioners/gpushare/driver_limits/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace egpu::driver_limits {

using namespace nvidia;  // NOLINT(google-build-using-namespace): names of NVML

namespace {

constexpr unsigned kMaxCards = 64;

std::string inWords(Return answer) {
  switch (answer) {
    case kInvalidArgument:
      return "NVML refuses the limits as invalid";
    case kNotSupported:
      return "NVML answers that memory limits are not supported";
    case kNoPermission:
      return "NVML denies permission; only root can set memory limits";
    case kNotFound:
      return "NVML does not find the cgroup, or the cgroup lacks the dmem controller (+dmem in cgroup.subtree_control "
             "of its parents)";
    case kGpuIsLost:
      return "the card has fallen off the bus";
    case kFunctionNotFound:
      return "the driver is too old";
    default:
      return "NVML answered " + std::to_string(answer);
  }
}

template <class... Parameters, class... Arguments>
Return call(Return (*function)(Parameters...), Arguments... arguments) {
  return function ? function(arguments...) : kFunctionNotFound;
}

}  // namespace

struct NvmlDriver::Functions {
  void* handle = nullptr;
  bool started = false;
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declarator can't stand in them.
#define EGPU_MEMBER(name, parameters) Return(*name) parameters = nullptr;
  EGPU_NVML_FUNCTIONS(EGPU_MEMBER)
  EGPU_NVML_MEMORY_LIMIT_FUNCTIONS(EGPU_MEMBER)
#undef EGPU_MEMBER
};

NvmlDriver::NvmlDriver() : nvml_(std::make_unique<Functions>()) {}

NvmlDriver::~NvmlDriver() {
  if (nvml_->started) call(nvml_->nvmlShutdown);
  if (nvml_->handle != nullptr) ::dlclose(nvml_->handle);
}

std::unique_ptr<NvmlDriver> NvmlDriver::open(std::string& why) {
  std::unique_ptr<NvmlDriver> out(new NvmlDriver);
  Functions& nvml = *out->nvml_;
  nvml.handle = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (nvml.handle == nullptr) {
    const char* error = ::dlerror();  // NOLINT(concurrency-mt-unsafe): the program has one thread
    why = std::string("no NVIDIA driver: ") + (error != nullptr ? error : "libnvidia-ml.so.1 is not found");
    return nullptr;
  }
#define EGPU_FIND(name, parameters) nvml.name = reinterpret_cast<decltype(nvml.name)>(::dlsym(nvml.handle, #name));
  EGPU_NVML_FUNCTIONS(EGPU_FIND)
  EGPU_NVML_MEMORY_LIMIT_FUNCTIONS(EGPU_FIND)
#undef EGPU_FIND
  if (const Return answer = call(nvml.nvmlInit_v2); answer != kSuccess) {
    why = "NVIDIA's driver does not answer: " + inWords(answer);
    return nullptr;
  }
  nvml.started = true;
  if (nvml.nvmlDeviceSetMemoryLimits_v1 == nullptr || nvml.nvmlDeviceGetMemoryLimits_v1 == nullptr) {
    std::array<char, kTextSize + 1> version{};
    call(nvml.nvmlSystemGetDriverVersion, version.data(), kTextSize);
    why = std::string("the driver ") + version.data() + " is too old: memory limits need R615 or newer";
    return nullptr;
  }
  why = out->findCards();
  return why.empty() ? std::move(out) : nullptr;
}

std::string NvmlDriver::findCards() {
  unsigned count = 0;
  if (const Return answer = call(nvml_->nvmlDeviceGetCount_v2, &count); answer != kSuccess)
    return "NVIDIA's driver does not count its cards: " + inWords(answer);
  for (unsigned i = 0; i < std::min(count, kMaxCards); ++i) {
    Device device = nullptr;
    std::array<char, kTextSize + 1> uuid{};
    if (call(nvml_->nvmlDeviceGetHandleByIndex_v2, i, &device) == kSuccess &&
        call(nvml_->nvmlDeviceGetUUID, device, uuid.data(), kTextSize) == kSuccess)
      devices_[uuid.data()] = device;
  }
  return {};
}

Device NvmlDriver::deviceOf(const std::string& card) const {
  const auto found = devices_.find(card);
  return found == devices_.end() ? nullptr : found->second;
}

std::string NvmlDriver::set(const std::string& card, const std::string& cgroup, const CardLimits& limits) {
  const Device device = deviceOf(card);
  if (device == nullptr) return "the driver has no card " + card;
  const SetMemoryLimits request{cgroup.c_str(), limits.soft, limits.hard};
  const Return answer = call(nvml_->nvmlDeviceSetMemoryLimits_v1, device, &request);
  return answer == kSuccess ? std::string() : "card " + card + ", cgroup " + cgroup + ": " + inWords(answer);
}

std::string NvmlDriver::get(const std::string& card, const std::string& cgroup, InForce& out) {
  const Device device = deviceOf(card);
  if (device == nullptr) return "the driver has no card " + card;
  MemoryLimits reply{cgroup.c_str(), 0, 0, 0};
  const Return answer = call(nvml_->nvmlDeviceGetMemoryLimits_v1, device, &reply);
  // The driver's own accounting (misc) does not know a cgroup that never had limits.
  if (answer == kNotSupported) return out = {{kNoMemoryLimit, 0}, 0}, std::string();
  if (answer != kSuccess) return "card " + card + ", cgroup " + cgroup + ": " + inWords(answer);
  out = {{reply.hard, reply.soft}, reply.used};
  return {};
}

std::string NvmlDriver::whyUnsuitable(const std::string& card) const {
  const Device device = deviceOf(card);
  if (device == nullptr) return "the driver has no card " + card;
  unsigned current = 0, pending = 0;
  if (call(nvml_->nvmlDeviceGetMigMode, device, &current, &pending) == kSuccess && current == kMigEnabled)
    return "the card is in MIG mode, in which the driver has no memory limits";
  return {};
}

uint64_t NvmlDriver::memoryOf(const std::string& card) const {
  Memory memory{};
  const Device device = deviceOf(card);
  if (device == nullptr || call(nvml_->nvmlDeviceGetMemoryInfo, device, &memory) != kSuccess) return 0;
  return memory.total;
}

std::vector<std::string> NvmlDriver::cards() const {
  std::vector<std::string> out;
  for (const auto& [uuid, device] : devices_) out.push_back(uuid);
  return out;
}

}  // namespace egpu::driver_limits
