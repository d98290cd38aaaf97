// Functions of the fake NVML that list processes, and functions that only third-party clients call (nvidia-ml-py,
// nvitop, gpustat). Without them these clients do not start.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/nvml/mig_state.h"
#include "tests/nvml/request.h"

namespace egpu::nvidia::testing {
namespace {

using Processes = std::vector<FakeProcess>;

Return list(const NvmlCall& r, Processes FakeDevice::*processes, unsigned* count, ProcessInfo* out) {
  if (r.answer != kSuccess) return r.answer;
  const Processes& all = r.device->*processes;
  const unsigned capacity = std::exchange(*count, static_cast<unsigned>(all.size()));
  if (*count > capacity) return kInsufficientSize;
  for (const FakeProcess& p : all) {
    const auto instance = static_cast<unsigned>(p.gpuInstance);  // ~0U = none
    *out++ = {static_cast<unsigned>(p.pid), p.memory, instance, p.gpuInstance < 0 ? ~0U : 0U};
  }
  return kSuccess;
}

// _v2, of drivers 455 to 495, has the layout of _v3.
Return compute2(Device device, unsigned* count, ProcessInfo* out) {
  return list(begin("nvmlDeviceGetComputeRunningProcesses_v2", device), &FakeDevice::processes, count, out);
}
Return compute3(Device device, unsigned* count, ProcessInfo* out) {
  return list(begin("nvmlDeviceGetComputeRunningProcesses_v3", device), &FakeDevice::processes, count, out);
}
Return mps2(Device device, unsigned* count, ProcessInfo* out) {
  return list(begin("nvmlDeviceGetMPSComputeRunningProcesses_v2", device), &FakeDevice::mpsProcesses, count, out);
}
Return mps3(Device device, unsigned* count, ProcessInfo* out) {
  return list(begin("nvmlDeviceGetMPSComputeRunningProcesses_v3", device), &FakeDevice::mpsProcesses, count, out);
}
Return graphics2(Device device, unsigned* count, ProcessInfo* out) {
  return list(begin("nvmlDeviceGetGraphicsRunningProcesses_v2", device), &FakeDevice::graphicsProcesses, count, out);
}
Return graphics3(Device device, unsigned* count, ProcessInfo* out) {
  return list(begin("nvmlDeviceGetGraphicsRunningProcesses_v3", device), &FakeDevice::graphicsProcesses, count, out);
}

Return initWithFlags(unsigned /*flags*/) { return begin("nvmlInitWithFlags").answer; }

const char* errorString(Return code) {
  switch (code) {
    case kSuccess:
      return "The operation was successful";
    case kNotSupported:
      return "Not Supported";
    case kDriverNotLoaded:
      return "Driver Not Loaded";
    case kGpuIsLost:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}

Return index(Device device, unsigned* out) {
  const NvmlCall r = begin("nvmlDeviceGetIndex", device);
  if (r.answer != kSuccess) return r.answer;
  const auto places = visiblePlaces(*r.node);
  *out = static_cast<unsigned>(std::find(places.begin(), places.end(), placeOf(device)) - places.begin());
  return kSuccess;
}

Return persistence(Device device, unsigned* out) {
  const NvmlCall r = begin("nvmlDeviceGetPersistenceMode", device);
  if (r.answer == kSuccess) *out = r.device->persistence ? 1 : 0;
  return r.answer;
}

/// Returns the handle of a visible card or MIG device.
Return handleByUuid(const char* uuid, Device* out) {
  const NvmlCall r = begin("nvmlDeviceGetHandleByUUID");
  if (r.answer != kSuccess) return r.answer;
  for (const std::size_t place : visiblePlaces(*r.node)) {
    if (r.node->devices[place].uuid == uuid) return *out = handleOf(place), kSuccess;
    for (const auto& each : visibleMigDevices(*r.node, place))
      if (each.uuid == uuid) return *out = handleOfMigDevice(place, each), kSuccess;
  }
  return kNotFound;
}

/// The domain of an address has four digits or eight.
Return handleByPci(const char* address, Device* out) {
  const NvmlCall r = begin("nvmlDeviceGetHandleByPciBusId_v2");
  if (r.answer != kSuccess) return r.answer;
  const auto numbersOf = [](const char* text) {
    std::array<unsigned, 3> numbers{};
    const bool isAddress =
        std::sscanf(text, "%x:%x:%x", &numbers[0], &numbers[1], &numbers[2]) == 3;  // NOLINT(cert-err34-c)
    return std::pair(isAddress, numbers);
  };
  const auto wanted = numbersOf(address);
  if (!wanted.first) return kInvalidArgument;
  for (const std::size_t place : visiblePlaces(*r.node))
    if (numbersOf(r.node->devices[place].pci.c_str()) == wanted) return *out = handleOf(place), kSuccess;
  return kNotFound;
}

/// NVML's version is that of its interface, then that of the driver.
Return nvmlVersion(char* version, unsigned length) {
  const NvmlCall r = begin("nvmlSystemGetNVMLVersion");
  if (r.answer != kSuccess) return r.answer;
  const std::string text = "12." + r.node->driver;
  if (text.size() >= length) return kInsufficientSize;
  std::snprintf(version, length, "%s", text.c_str());
  return kSuccess;
}

/// nvmlDeviceArchitecture_t by the compute capability.
Return architecture(Device device, unsigned* out) {
  const NvmlCall r = begin("nvmlDeviceGetArchitecture", device);
  if (r.answer != kSuccess) return r.answer;
  constexpr unsigned kUnknownArchitecture = 0xffffffff;
  static const std::map<std::pair<int64_t, int64_t>, unsigned> kByCapability = {
      {{7, 0}, 5}, {{7, 5}, 6}, {{8, 0}, 7}, {{8, 6}, 7}, {{8, 9}, 8}, {{9, 0}, 9}, {{10, 0}, 10}};
  const auto found = kByCapability.find({r.device->computeMajor, r.device->computeMinor});
  *out = found == kByCapability.end() ? kUnknownArchitecture : found->second;
  return kSuccess;
}

/// nvmlDeviceAttributes_t.
struct MigAttributes {
  unsigned multiprocessors, copyEngines, decoders, encoders, jpeg, ofa, gpuInstanceSlices, computeInstanceSlices;
  unsigned long long memoryMib;
};
Return migAttributes(Device device, MigAttributes* out) {
  const NvmlCall r = begin("nvmlDeviceGetAttributes_v2");
  if (r.answer != kSuccess) return r.answer;
  const auto found = migDeviceOf(device);
  if (!found) return kNotSupported;
  *out = {};
  out->multiprocessors = static_cast<unsigned>(found->sms);
  out->gpuInstanceSlices = out->computeInstanceSlices = found->slices;
  out->memoryMib = found->memory >> 20;
  return kSuccess;
}

}  // namespace
}  // namespace egpu::nvidia::testing

EXPORT(nvmlDeviceGetComputeRunningProcesses_v2, compute2)
EXPORT(nvmlDeviceGetComputeRunningProcesses_v3, compute3)
EXPORT(nvmlDeviceGetMPSComputeRunningProcesses_v2, mps2)
EXPORT(nvmlDeviceGetMPSComputeRunningProcesses_v3, mps3)
EXPORT(nvmlDeviceGetGraphicsRunningProcesses_v2, graphics2)
EXPORT(nvmlDeviceGetGraphicsRunningProcesses_v3, graphics3)
EXPORT(nvmlInitWithFlags, initWithFlags)
EXPORT(nvmlErrorString, errorString)
EXPORT(nvmlDeviceGetIndex, index)
EXPORT(nvmlDeviceGetPersistenceMode, persistence)
EXPORT(nvmlDeviceGetHandleByUUID, handleByUuid)
EXPORT(nvmlDeviceGetHandleByPciBusId_v2, handleByPci)
EXPORT(nvmlSystemGetNVMLVersion, nvmlVersion)
EXPORT(nvmlDeviceGetArchitecture, architecture)
EXPORT(nvmlDeviceGetAttributes_v2, migAttributes)
