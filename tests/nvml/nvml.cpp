// A libnvidia-ml.so.1 for machines without a GPU. A file that every process reads (node_file.h) defines its answers and
// faults, so that all processes agree, and a test changes the hardware's behaviour by writing the file. This file has
// the functions that the product calls; clients.cpp has those of third-party clients.
#include "provisioners/nvidia/nvml.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/nvml/request.h"

namespace egpu::nvidia::testing {
namespace {

Return writeText(const FakeNode& node, std::string_view text, char* out, unsigned length) {
  if (node.unterminated) return std::memset(out, 'x', length), kSuccess;
  if (text.size() >= length) return kInsufficientSize;
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = 0;
  return kSuccess;
}

void writePci(const std::string& address, PciInfo& out) {
  out = {};
  std::sscanf(address.c_str(), "%x:%x:%x", &out.domain, &out.bus, &out.device);  // NOLINT(cert-err34-c)
  std::snprintf(out.busId, sizeof out.busId, "%08X:%02X:%02X.0", out.domain, out.bus & 0xff, out.device & 0xff);
}

bool opens(const std::string& path) {
  const bool device = path.compare(0, 5, "/dev/") == 0;
  const int fd = open(path.c_str(), (device ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

/// The place of no card.
constexpr std::size_t kNoPlace = 0xffff;

/// Returns the PCIe level from the common prefix of two cards' paths.
unsigned levelOf(const FakeDevice& a, const FakeDevice& b) {
  std::size_t common = 0;
  while (common < std::min(a.path.size(), b.path.size()) && a.path[common] == b.path[common]) ++common;
  if (common > 1) return common == a.path.size() && common == b.path.size() ? kOneSwitch : kSeveralSwitches;
  if (common == 1) return kSameHostBridge;
  return a.numa == b.numa && a.numa >= 0 ? kSameNode : kAcrossSystem;
}

bool onSwitch(const FakeDevice& device) {
  return std::any_of(device.links.begin(), device.links.end(), [](const FakeLink& link) { return link.card < 0; });
}

// The functions, by the name under which they are exported.

Return init() {
  const NvmlCall r = begin("nvmlInit_v2");
  if (r.answer != kSuccess) return r.answer;
  return std::all_of(r.node->opens.begin(), r.node->opens.end(), opens) ? kSuccess : kNoPermission;
}
Return shutdown() { return begin("nvmlShutdown").answer; }

Return driverVersion(char* version, unsigned length) {
  const NvmlCall r = begin("nvmlSystemGetDriverVersion");
  return r.answer != kSuccess ? r.answer : writeText(*r.node, r.node->driver, version, length);
}
Return cudaVersion(int* version) {
  const NvmlCall r = begin("nvmlSystemGetCudaDriverVersion_v2");
  if (r.answer == kSuccess) *version = static_cast<int>(r.node->cuda);
  return r.answer;
}
Return count(unsigned* out) {
  const NvmlCall r = begin("nvmlDeviceGetCount_v2");
  if (r.answer == kSuccess)
    *out =
        static_cast<unsigned>(r.node->count < 0 ? static_cast<int64_t>(visiblePlaces(*r.node).size()) : r.node->count);
  return r.answer;
}
Return handleByIndex(unsigned index, Device* out) {
  const Node node = currentNode();
  const auto places = node ? visiblePlaces(*node) : std::vector<std::size_t>();
  const Device device = handleOf(index < places.size() ? places[index] : kNoPlace);
  const NvmlCall r = begin("nvmlDeviceGetHandleByIndex_v2", device);
  if (r.answer == kSuccess) *out = device;
  return r.answer;
}
Return uuid(Device device, char* out, unsigned length) {
  if (isMigDevice(device)) {
    const NvmlCall r = begin("nvmlDeviceGetUUID");
    return r.answer != kSuccess ? r.answer : writeText(*r.node, uuidOfMigDevice(device), out, length);
  }
  const NvmlCall r = begin("nvmlDeviceGetUUID", device);
  return r.answer != kSuccess ? r.answer : writeText(*r.node, r.device->uuid, out, length);
}
Return name(Device device, char* out, unsigned length) {
  const NvmlCall r = begin("nvmlDeviceGetName", device);
  return r.answer != kSuccess ? r.answer : writeText(*r.node, r.device->name, out, length);
}
Return minorNumber(Device device, unsigned* out) {
  const NvmlCall r = begin("nvmlDeviceGetMinorNumber", device);
  if (r.answer == kSuccess) *out = static_cast<unsigned>(r.device->minor);
  return r.answer;
}
/// Memory that programs use.
uint64_t usedOf(const FakeDevice& device) {
  if (device.used >= 0) return static_cast<uint64_t>(device.used);
  uint64_t sum = 0;
  for (const auto* all : {&device.processes, &device.mpsProcesses})
    for (const FakeProcess& process : *all) sum += process.memory == kUnknownMemory ? 0 : process.memory;
  return sum;
}
/// As in the real library, memory that the driver reserves counts as used.
Return memory(Device device, Memory* out) {
  if (isMigDevice(device)) {
    const auto mig = migDeviceOf(device);
    if (!mig) return kInvalidArgument;
    *out = {mig->memory, mig->memory, 0};
    return begin("nvmlDeviceGetMemoryInfo").answer;
  }
  const NvmlCall r = begin("nvmlDeviceGetMemoryInfo", device);
  if (r.answer != kSuccess) return r.answer;
  const uint64_t used = r.device->reserved + usedOf(*r.device);
  *out = {r.device->memory, r.device->memory - used, used};
  return kSuccess;
}
Return memoryV2(Device device, MemoryV2* out) {
  if (out->version != kMemoryV2) return kInvalidArgument;
  if (isMigDevice(device)) {
    const auto mig = migDeviceOf(device);
    if (!mig) return kInvalidArgument;
    *out = {kMemoryV2, mig->memory, 0, mig->memory, 0};
    return begin("nvmlDeviceGetMemoryInfo_v2").answer;
  }
  const NvmlCall r = begin("nvmlDeviceGetMemoryInfo_v2", device);
  if (r.answer != kSuccess) return r.answer;
  const uint64_t used = usedOf(*r.device);
  *out = {kMemoryV2, r.device->memory, r.device->reserved, r.device->memory - r.device->reserved - used, used};
  return kSuccess;
}
Return pciInfo(Device device, PciInfo* out) {
  const NvmlCall r = begin("nvmlDeviceGetPciInfo_v3", device);
  if (r.answer == kSuccess) writePci(r.device->pci, *out);
  return r.answer;
}
Return computeCapability(Device device, int* major, int* minor) {
  const NvmlCall r = begin("nvmlDeviceGetCudaComputeCapability", device);
  if (r.answer != kSuccess) return r.answer;
  *major = static_cast<int>(r.device->computeMajor);
  *minor = static_cast<int>(r.device->computeMinor);
  return kSuccess;
}
Return cores(Device device, unsigned* out) {
  const NvmlCall r = begin("nvmlDeviceGetNumGpuCores", device);
  if (r.answer != kSuccess) return r.answer;
  if (r.device->mig == kMigEnabled) return kNotSupported;
  *out = static_cast<unsigned>(r.device->cores);
  return kSuccess;
}
Return maxClock(Device device, unsigned domain, unsigned* mhz) {
  const NvmlCall r = begin("nvmlDeviceGetMaxClockInfo", device);
  if (r.answer != kSuccess) return r.answer;
  if (domain != kSmClock) return kNotSupported;
  *mhz = static_cast<unsigned>(r.device->clock);
  return kSuccess;
}
Return computeMode(Device device, unsigned* out) {
  const NvmlCall r = begin("nvmlDeviceGetComputeMode", device);
  if (r.answer == kSuccess) *out = static_cast<unsigned>(r.device->computeMode);
  return r.answer;
}
Return migMode(Device device, unsigned* current, unsigned* pending) {
  const NvmlCall r = begin("nvmlDeviceGetMigMode", device);
  if (r.answer != kSuccess) return r.answer;
  if (r.device->mig < 0) return kNotSupported;
  *current = static_cast<unsigned>(r.device->mig);
  *pending = static_cast<unsigned>(r.device->pendingMig);
  return kSuccess;
}
Return commonAncestor(Device a, Device b, unsigned* level) {
  const NvmlCall r = begin("nvmlDeviceGetTopologyCommonAncestor", a),
                 other = begin("nvmlDeviceGetTopologyCommonAncestor", b);
  if (r.answer != kSuccess || other.answer != kSuccess) return std::max(r.answer, other.answer);
  *level = levelOf(*r.device, *other.device);
  return kSuccess;
}
Return p2pStatus(Device a, Device b, unsigned capability, unsigned* status) {
  const NvmlCall r = begin("nvmlDeviceGetP2PStatus", a), other = begin("nvmlDeviceGetP2PStatus", b);
  if (r.answer != kSuccess || other.answer != kSuccess) return std::max(r.answer, other.answer);
  const bool mig = r.device->mig == kMigEnabled || other.device->mig == kMigEnabled;
  const bool linked = capability == kNvlinkCapability && onSwitch(*r.device) && onSwitch(*other.device) && !mig;
  *status = linked ? kP2pOk : kP2pOk + 5;  // NVML_P2P_STATUS_NOT_SUPPORTED
  return kSuccess;
}
Return linkState(Device device, unsigned link, unsigned* active) {
  const NvmlCall r = begin("nvmlDeviceGetNvLinkState", device);
  if (r.answer != kSuccess) return r.answer;
  if (link >= r.device->links.size()) return kInvalidArgument;
  const int64_t peer = r.device->links[link].card;
  const bool down = link < r.device->linksDown || (peer >= 0 && r.node->devices[static_cast<std::size_t>(peer)].lost);
  *active = down ? 0 : 1;
  return kSuccess;
}
Return linkType(Device device, unsigned link, unsigned* type) {
  const NvmlCall r = begin("nvmlDeviceGetNvLinkRemoteDeviceType", device);
  if (r.answer != kSuccess) return r.answer;
  if (link >= r.device->links.size()) return kInvalidArgument;
  *type = r.device->links[link].card < 0 ? kLinkToSwitch : kLinkToGpu;
  return kSuccess;
}
Return linkPci(Device device, unsigned link, PciInfo* out) {
  const NvmlCall r = begin("nvmlDeviceGetNvLinkRemotePciInfo_v2", device);
  if (r.answer != kSuccess) return r.answer;
  if (link >= r.device->links.size()) return kInvalidArgument;
  const int64_t card = r.device->links[link].card;
  writePci(card < 0 ? "0000:c4:00.0" : r.node->devices[static_cast<std::size_t>(card)].pci, *out);
  return kSuccess;
}

Return eccErrors(Device device, unsigned type, unsigned counter, unsigned long long* count) {
  const NvmlCall r = begin("nvmlDeviceGetTotalEccErrors", device);
  if (r.answer == kSuccess) *count = type == kUncorrected && counter == kVolatile ? r.device->ecc : 0;
  return r.answer;
}
Return remappedRows(Device device, unsigned* corrected, unsigned* uncorrected, unsigned* pending, unsigned* failed) {
  const NvmlCall r = begin("nvmlDeviceGetRemappedRows", device);
  if (r.answer != kSuccess) return r.answer;
  if (r.device->retiredPending >= 0) return kNotSupported;
  *corrected = 0;
  *uncorrected = r.device->remapPending || r.device->remapFailed ? 1 : 0;
  *pending = r.device->remapPending ? 1 : 0;
  *failed = r.device->remapFailed ? 1 : 0;
  return kSuccess;
}
Return retiredPending(Device device, unsigned* pending) {
  const NvmlCall r = begin("nvmlDeviceGetRetiredPagesPendingStatus", device);
  if (r.answer != kSuccess) return r.answer;
  if (r.device->retiredPending < 0) return kNotSupported;
  *pending = static_cast<unsigned>(r.device->retiredPending);
  return kSuccess;
}

Return fieldValues(Device device, int count, FieldValue* values) {
  const NvmlCall r = begin("nvmlDeviceGetFieldValues", device);
  if (r.answer != kSuccess) return r.answer;
  for (int i = 0; i < count; ++i) {
    FieldValue& value = values[i];
    const bool known = value.field == kRecoveryAction && r.device->recoveryAction >= 0;
    value.answer = known ? kSuccess : kNotSupported;
    value.valueType = kUnsigned;
    if (known) value.value = static_cast<unsigned>(r.device->recoveryAction);
  }
  return kSuccess;
}

Return utilizationRates(Device device, Utilization* out) {
  const NvmlCall r = begin("nvmlDeviceGetUtilizationRates", device);
  if (r.answer != kSuccess) return r.answer;
  if (r.device->sm < 0 || r.device->mig == kMigEnabled) return kNotSupported;
  *out = {static_cast<unsigned>(r.device->sm), 0};
  return kSuccess;
}

/// Returns two samples of each process; the earlier one has a different value.
Return processUtilization(Device device, ProcessSample* out, unsigned* count, unsigned long long since) {
  const NvmlCall r = begin("nvmlDeviceGetProcessUtilization", device);
  if (r.answer != kSuccess) return r.answer;
  if (r.device->mig == kMigEnabled) return kNotSupported;
  const auto now = static_cast<unsigned long long>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
  if (since > now) return kInvalidArgument;
  unsigned samples = 0;
  for (const FakeProcess& p : r.device->processes) samples += p.sm >= 0 ? 2 : 0;
  const unsigned capacity = std::exchange(*count, samples);
  if (samples == 0) return kNotFound;
  if (samples > capacity) return kInsufficientSize;
  for (const FakeProcess& p : r.device->processes) {
    if (p.sm < 0) continue;
    *out++ = {static_cast<unsigned>(p.pid), now, static_cast<unsigned>(p.sm), 0, 0, 0};
    *out++ = {static_cast<unsigned>(p.pid), now - 1, 99, 0, 0, 0};
  }
  return kSuccess;
}

/// Number of XIDs of each device that each set has reported. A set's handle is the address of its entry.
using ReportedEvents = std::map<std::size_t, std::size_t>;
std::mutex setsMutex;
std::map<EventSet, std::unique_ptr<ReportedEvents>> sets;  // protected by setsMutex

Return eventSetCreate(EventSet* out) {
  const NvmlCall r = begin("nvmlEventSetCreate");
  if (r.answer != kSuccess) return r.answer;
  auto reported = std::make_unique<ReportedEvents>();
  *out = reinterpret_cast<EventSet>(reported.get());
  const std::lock_guard lock(setsMutex);
  sets[*out] = std::move(reported);
  return kSuccess;
}
Return eventSetFree(EventSet set) {
  const NvmlCall r = begin("nvmlEventSetFree");
  const std::lock_guard lock(setsMutex);
  return sets.erase(set) == 0 ? kInvalidArgument : r.answer;
}
Return registerEvents(Device device, unsigned long long types, EventSet set) {
  const NvmlCall r = begin("nvmlDeviceRegisterEvents", device);
  if (r.answer != kSuccess) return r.answer;
  const std::lock_guard lock(setsMutex);
  const auto found = sets.find(set);
  if (found == sets.end() || types != kXidEvent) return kInvalidArgument;
  found->second->emplace(reinterpret_cast<std::size_t>(device) - 1, r.device->xids.size());
  return kSuccess;
}
Return eventSetWait(EventSet set, EventData* out, unsigned /*milliseconds*/) {
  const NvmlCall r = begin("nvmlEventSetWait_v2");
  if (r.answer != kSuccess) return r.answer;
  const std::lock_guard lock(setsMutex);
  const auto found = sets.find(set);
  if (found == sets.end()) return kInvalidArgument;
  for (auto& [place, reported] : *found->second)
    if (place < r.node->devices.size() && reported < r.node->devices[place].xids.size()) {
      *out = {handleOf(place), kXidEvent, r.node->devices[place].xids[reported++], ~0U, ~0U};
      return kSuccess;
    }
  return kTimeout;
}

}  // namespace
}  // namespace egpu::nvidia::testing

using namespace egpu::nvidia;

EXPORT(nvmlInit_v2, init)
EXPORT(nvmlShutdown, shutdown)
EXPORT(nvmlSystemGetDriverVersion, driverVersion)
EXPORT(nvmlSystemGetCudaDriverVersion_v2, cudaVersion)
EXPORT(nvmlDeviceGetCount_v2, count)
EXPORT(nvmlDeviceGetHandleByIndex_v2, handleByIndex)
EXPORT(nvmlDeviceGetUUID, uuid)
EXPORT(nvmlDeviceGetName, name)
EXPORT(nvmlDeviceGetMinorNumber, minorNumber)
EXPORT(nvmlDeviceGetMemoryInfo, memory)
EXPORT(nvmlDeviceGetMemoryInfo_v2, memoryV2)
EXPORT(nvmlDeviceGetPciInfo_v3, pciInfo)
EXPORT(nvmlDeviceGetCudaComputeCapability, computeCapability)
EXPORT(nvmlDeviceGetNumGpuCores, cores)
EXPORT(nvmlDeviceGetMaxClockInfo, maxClock)
EXPORT(nvmlDeviceGetComputeMode, computeMode)
EXPORT(nvmlDeviceGetMigMode, migMode)
EXPORT(nvmlDeviceGetTopologyCommonAncestor, commonAncestor)
EXPORT(nvmlDeviceGetP2PStatus, p2pStatus)
EXPORT(nvmlDeviceGetNvLinkState, linkState)
EXPORT(nvmlDeviceGetNvLinkRemoteDeviceType, linkType)
EXPORT(nvmlDeviceGetNvLinkRemotePciInfo_v2, linkPci)
EXPORT(nvmlDeviceGetTotalEccErrors, eccErrors)
EXPORT(nvmlDeviceGetRemappedRows, remappedRows)
EXPORT(nvmlDeviceGetRetiredPagesPendingStatus, retiredPending)
EXPORT(nvmlDeviceGetFieldValues, fieldValues)
EXPORT(nvmlDeviceGetUtilizationRates, utilizationRates)
EXPORT(nvmlDeviceGetProcessUtilization, processUtilization)
EXPORT(nvmlEventSetCreate, eventSetCreate)
EXPORT(nvmlEventSetFree, eventSetFree)
EXPORT(nvmlDeviceRegisterEvents, registerEvents)
EXPORT(nvmlEventSetWait_v2, eventSetWait)
