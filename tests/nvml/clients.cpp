// Functions of the fake NVML that list processes, and functions that only third-party clients call (nvidia-ml-py,
// nvitop, gpustat). Without them these clients do not start.
#include <utility>
#include <vector>

#include "tests/nvml/request.h"

namespace egpu::nvidia::testing {
namespace {

using Processes = std::vector<FakeProcess>;

Return list(const NvmlCall& r, Processes FakeDevice::*processes, unsigned* count, ProcessInfo* out) {
  if (r.answer != kSuccess) return r.answer;
  const Processes& all = r.device->*processes;
  const unsigned capacity = std::exchange(*count, static_cast<unsigned>(all.size()));
  if (*count > capacity) return kInsufficientSize;
  for (const FakeProcess& p : all) *out++ = {static_cast<unsigned>(p.pid), p.memory, ~0U, ~0U};
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
  if (r.answer == kSuccess) *out = static_cast<unsigned>(placeOf(device));
  return r.answer;
}

Return persistence(Device device, unsigned* out) {
  const NvmlCall r = begin("nvmlDeviceGetPersistenceMode", device);
  if (r.answer == kSuccess) *out = r.device->persistence ? 1 : 0;
  return r.answer;
}

Return notSupported() { return kNotSupported; }

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
// Sensors, which the node file does not describe.
EXPORT(nvmlDeviceGetTemperature, notSupported)
EXPORT(nvmlDeviceGetTemperatureV, notSupported)
EXPORT(nvmlDeviceGetFanSpeed, notSupported)
EXPORT(nvmlDeviceGetPowerUsage, notSupported)
EXPORT(nvmlDeviceGetEnforcedPowerLimit, notSupported)
EXPORT(nvmlDeviceGetPowerManagementLimit, notSupported)
EXPORT(nvmlDeviceGetEncoderUtilization, notSupported)
EXPORT(nvmlDeviceGetDecoderUtilization, notSupported)
EXPORT(nvmlDeviceGetClockInfo, notSupported)
EXPORT(nvmlDeviceGetPerformanceState, notSupported)
EXPORT(nvmlDeviceGetDisplayActive, notSupported)
