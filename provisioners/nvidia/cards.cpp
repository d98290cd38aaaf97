#include "provisioners/nvidia/cards.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>

#include "provisioners/nvidia/mig/table.h"
#include "provisioners/nvidia/ratings.h"
#include "provisioners/nvidia/system.h"
#include "provisioners/nvidia/unified.h"
#include "provisioners/nvidia/xids.h"

namespace egpu::nvidia {
namespace {

// Limits of a card's object, as in manifests/crd.
constexpr uint64_t kMaxMemory = uint64_t{1} << 50;
constexpr unsigned kMaxMinor = 1023;
constexpr int64_t kMaxSms = 1'000'000;
constexpr int64_t kMaxMilliTflops = 1'000'000'000;
constexpr uint64_t kMiB = 1 << 20;
// Maximum age of utilization samples. The driver keeps no older ones, and the agent queries less often.
constexpr std::chrono::seconds kSamplesOf{10}, kRecent{1};
constexpr std::size_t kMaxProcesses = 1024;

/// Calls a function that writes a text. The last byte of the buffer stays NUL regardless of the function.
template <class Function, class... Arguments>
Return readText(Function function, std::string& out, Arguments... arguments) {
  std::array<char, kTextSize + 1> text{};
  const Return answer = Library::call(function, arguments..., text.data(), kTextSize);
  text.back() = 0;
  out = answer == kSuccess ? text.data() : "";
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  return answer;
}

/// Collects remarks on one card.
class Remarks {
 public:
  Remarks(const std::string& uuid, std::vector<std::string>& all) : uuid_(uuid), all_(all) {}
  void add(const std::string& what) { all_.push_back("card " + uuid_ + ": " + what); }

 private:
  const std::string& uuid_;
  std::vector<std::string>& all_;
};

/// Reads the memory that claims can get, in whole MiB: the total without the reserve of driver and firmware, which
/// drivers before 510 do not report; and the memory in use. A card without memory of its own, for which NVML lacks the
/// query, has the machine's. Invalid answers result in 0 and unknown.
Return readMemory(const Library& nvml, Device device, NvmlCard& out, Remarks& remarks) {
  MemoryV2 memory{};
  memory.version = kMemoryV2;
  Return answer = Library::call(nvml.nvmlDeviceGetMemoryInfo_v2, device, &memory);
  if (answer != kSuccess) {
    Memory old{};
    answer = Library::call(nvml.nvmlDeviceGetMemoryInfo, device, &old);
    memory.total = old.total;
    memory.used = old.used;
    memory.reserved = 0;
  }
  if (answer == kNotSupported && hasUnifiedMemory(out.model)) {
    out.memory = machineMemory() / static_cast<int64_t>(kMiB) * static_cast<int64_t>(kMiB);
    if (out.memory == 0) remarks.add("its memory is the machine's, which /proc/meminfo does not report");
  } else if (answer != kSuccess) {
    remarks.add("its memory is unknown: " + inWords(answer));
  } else if (memory.total == 0 || memory.total > kMaxMemory || memory.reserved >= memory.total) {
    remarks.add("its memory is unknown: it can't have " + std::to_string(memory.total) + " bytes of which " +
                std::to_string(memory.reserved) + " are reserved");
  } else {
    out.memory = static_cast<int64_t>((memory.total - memory.reserved) / kMiB * kMiB);
    if (memory.used <= memory.total) out.memoryUsed = static_cast<int64_t>(memory.used);
  }
  return answer;
}

/// Returns the number of SMs. In MIG mode it is that of the instance that takes the whole card, which is less than the
/// card has.
int64_t readSms(const Library& nvml, Device device, int64_t coresOfOne, bool mig, Remarks& remarks) {
  int64_t sms = 0;
  InstanceProfile whole{};
  unsigned cores = 0;
  if (mig && Library::call(nvml.nvmlDeviceGetGpuInstanceProfileInfo, device, kWholeCardProfile, &whole) == kSuccess)
    sms = whole.multiprocessorCount;
  else if (coresOfOne > 0 && Library::call(nvml.nvmlDeviceGetNumGpuCores, device, &cores) == kSuccess)
    sms = cores / coresOfOne;
  if (sms <= kMaxSms) return sms;
  remarks.add("its SMs are unknown: it can't have " + std::to_string(sms));
  return 0;
}

int64_t rate(const Library& nvml, Device device, const NvmlCard& card, int major, int minor, Remarks& remarks) {
  if (const int64_t rated = ratedMilliTflops(card.model)) return rated;
  unsigned mhz = 0;
  if (Library::call(nvml.nvmlDeviceGetMaxClockInfo, device, kSmClock, &mhz) != kSuccess) return 0;
  constexpr unsigned kMaxMhz = 100'000;
  const int64_t computed = mhz > kMaxMhz ? kMaxMilliTflops + 1 : computedMilliTflops(major, minor, card.smCount, mhz);
  if (computed <= kMaxMilliTflops) return computed;
  remarks.add("its rating is unknown: " + std::to_string(card.smCount) + " SMs at " + std::to_string(mhz) +
              " MHz can't be");
  return 0;
}

/// Reads the MIG mode. A failure that can pass is returned: a card in MIG mode must not be published as a whole card
/// meanwhile. After any other failure, the card has no MIG.
Return readMig(const Library& nvml, Device device, NvmlCard& out) {
  unsigned current = 0, pending = 0;
  const Return answer = Library::call(nvml.nvmlDeviceGetMigMode, device, &current, &pending);
  if (answer != kSuccess)
    return answer == kTimeout || answer == kIrqIssue || answer == kGpuIsLost ? answer : Return{kSuccess};
  const auto word = [](unsigned mode) { return mode == kMigEnabled ? "enabled" : "disabled"; };
  out.attributes.emplace_back("migMode", word(current));
  if (pending != current) out.attributes.emplace_back("pendingMigMode", word(pending));
  out.mig = current == kMigEnabled;
  return kSuccess;
}

/// Reads the compute mode and adds it unless it is the default; returns false if it is PROHIBITED.
bool readComputeMode(const Library& nvml, Device device, NvmlCard& out) {
  unsigned mode = kComputeDefault;
  if (Library::call(nvml.nvmlDeviceGetComputeMode, device, &mode) != kSuccess) return true;
  if (mode == kComputeExclusiveThread || mode == kComputeExclusiveProcess)
    out.attributes.emplace_back("computeMode", "exclusiveProcess");
  if (mode == kComputeProhibited) out.attributes.emplace_back("computeMode", "prohibited");
  return mode != kComputeProhibited;
}

/// Reads the minor number and the PCI location. A minor number that NVML does not report is taken from the kernel's
/// list.
void readPlace(const Library& nvml, Device device, NvmlCard& out, Remarks& remarks) {
  PciInfo pci{};
  if (Library::call(nvml.nvmlDeviceGetPciInfo_v3, device, &pci) == kSuccess) out.pci = addressOf(pci);
  unsigned minor = 0;
  const Return answer = Library::call(nvml.nvmlDeviceGetMinorNumber, device, &minor);
  if (answer == kSuccess && minor <= kMaxMinor) {
    out.index = minor;
  } else {
    for (const KernelCard& card : kernelCards())
      if (card.uuid == out.uuid) out.index = card.minor;
    if (out.index < 0)
      remarks.add("its minor number is unknown: " +
                  (answer == kSuccess ? "it can't be " + std::to_string(minor) : inWords(answer)));
  }
  if (out.pci.empty()) return;
  out.numaNode = numaNodeOf(out.pci);
  if (const std::string root = pcieRootOf(out.pci); !root.empty()) out.attributes.emplace_back("pcieRoot", root);
}

/// Returns the recovery action that the driver requests; -1 = unknown.
int64_t readRecoveryAction(const Library& nvml, Device device) {
  FieldValue field{};
  field.field = kRecoveryAction;
  if (Library::call(nvml.nvmlDeviceGetFieldValues, device, 1, &field) != kSuccess || field.answer != kSuccess)
    return -1;
  return field.valueType == kUnsigned ? static_cast<int64_t>(static_cast<unsigned>(field.value)) : -1;
}

/// Reads error counters and the driver's recovery action. Memory that will be repaired at the next reset, and errors
/// that ended a program, leave the card usable.
void readErrors(const Library& nvml, Device device, NvmlCard& out) {
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  const bool rows =
      Library::call(nvml.nvmlDeviceGetRemappedRows, device, &corrected, &uncorrected, &pending, &failed) == kSuccess;
  if (!rows) Library::call(nvml.nvmlDeviceGetRetiredPagesPendingStatus, device, &pending);
  out.recoveryAction = readRecoveryAction(nvml, device);
  if (rows && failed != 0)
    out.illness = "RowRemapFailed: a memory row is broken and no spare one is left; have the card replaced";
  else if (out.recoveryAction > kRecoveryNone)
    out.illness = illnessOfRecovery(static_cast<unsigned>(out.recoveryAction));
  unsigned long long errors = 0;
  if (Library::call(nvml.nvmlDeviceGetTotalEccErrors, device, kUncorrected, kVolatile, &errors) == kSuccess &&
      errors > 0)
    out.notice = "EccErrors: memory errors that ECC could not correct, " + std::to_string(errors) +
                 " since the driver was loaded; restart the affected programs, and have the card replaced if they "
                 "come again";
  if (pending != 0)
    out.notice = (out.notice.empty() ? "MemoryRepairPending: " : out.notice + "; ") +
                 "broken memory is taken out of use at the next reset, until then the card is used; to reset it, " +
                 kReset;
}

/// Returns a percentage, or -1 if it exceeds 100: some drivers return such values.
int64_t percentOf(unsigned value) { return value <= 100 ? static_cast<int64_t>(value) : -1; }

/// Reads each process's recent share of the SMs. A process that the driver does not list had none.
void readProcessUtilization(const Library& nvml, Device device, std::chrono::seconds samplesOf,
                            std::vector<Process>& processes) {
  const auto since = std::chrono::system_clock::now() - samplesOf;
  std::vector<ProcessSample> samples(kMaxProcesses);
  auto count = static_cast<unsigned>(samples.size());
  const Return answer =
      Library::call(nvml.nvmlDeviceGetProcessUtilization, device, samples.data(), &count,
                    static_cast<unsigned long long>(
                        std::chrono::duration_cast<std::chrono::microseconds>(since.time_since_epoch()).count()));
  if (answer != kSuccess && answer != kNotFound) return;
  samples.resize(answer == kSuccess ? std::min<std::size_t>(count, samples.size()) : 0);
  std::map<unsigned, ProcessSample> latest;
  for (const ProcessSample& sample : samples)
    if (const auto [known, fresh] = latest.emplace(sample.pid, sample); !fresh && known->second.time < sample.time)
      known->second = sample;
  for (Process& process : processes) {
    const auto sample = latest.find(static_cast<unsigned>(process.pid));
    process.smPercent = sample == latest.end() ? 0 : percentOf(sample->second.sm);
  }
}

using ListProcesses = Return (*)(Device device, unsigned* count, ProcessInfo* processes);

/// Adds the processes of a list that are not yet in `to`; returns false if NVML does not report them.
bool addProcesses(ListProcesses list, Device device, std::vector<Process>& to, Remarks& remarks) {
  std::vector<ProcessInfo> all(kMaxProcesses);
  auto count = static_cast<unsigned>(all.size());
  const Return answer = Library::call(list, device, &count, all.data());
  if (answer == kInsufficientSize) remarks.add("it has more processes than can be reported");
  if (answer != kSuccess) return false;
  all.resize(std::min<std::size_t>(count, all.size()));
  for (const ProcessInfo& p : all)
    if (std::none_of(to.begin(), to.end(), [&](const Process& have) { return have.pid == p.pid; }))
      to.push_back({p.pid, p.memory > kMaxMemory ? -1 : static_cast<int64_t>(p.memory)});
  return true;
}

/// Reads the processes that compute on the card; returns false if NVML does not report them.
bool readProcesses(const Library& nvml, Device device, std::chrono::seconds samplesOf, std::vector<Process>& out,
                   Remarks& remarks) {
  // Drivers 455 to 495, including the long-term branch R470, have _v2 with the same layout.
  const auto orOlder = [](ListProcesses newest, ListProcesses older) { return newest ? newest : older; };
  const auto compute =
      orOlder(nvml.nvmlDeviceGetComputeRunningProcesses_v3, nvml.nvmlDeviceGetComputeRunningProcesses_v2);
  const auto mps =
      orOlder(nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, nvml.nvmlDeviceGetMPSComputeRunningProcesses_v2);
  if (!addProcesses(compute, device, out, remarks)) return false;
  if (!out.empty()) readProcessUtilization(nvml, device, samplesOf, out);
  // MPS clients are added afterwards, because their share of the SMs is unknown.
  addProcesses(mps, device, out, remarks);
  return true;
}

/// Reads the usage of the card, and the processes that use it.
void readUse(const Library& nvml, Device device, NvmlCard& out, Remarks& remarks) {
  Utilization utilization{};
  if (Library::call(nvml.nvmlDeviceGetUtilizationRates, device, &utilization) == kSuccess)
    out.smPercent = percentOf(utilization.gpu);
  out.processesKnown = readProcesses(nvml, device, kSamplesOf, out.processes, remarks);
}

}  // namespace

bool readProcesses(const Library& nvml, unsigned index, std::string& uuid, std::vector<Process>& out) {
  Device device = nullptr;
  std::vector<std::string> remarks;
  if (Library::call(nvml.nvmlDeviceGetHandleByIndex_v2, index, &device) != kSuccess ||
      readText(nvml.nvmlDeviceGetUUID, uuid, device) != kSuccess || !isUuid(uuid))
    return false;
  Remarks ofCard(uuid, remarks);
  return readProcesses(nvml, device, kRecent, out, ofCard);
}

std::string readCard(const Library& nvml, Device device, NvmlCard& out, std::vector<std::string>& all) {
  if (const Return answer = readText(nvml.nvmlDeviceGetUUID, out.uuid, device); answer != kSuccess)
    return inWords(answer);
  if (!isUuid(out.uuid)) return "its uuid \"" + out.uuid + "\" can't name a card";
  std::vector<std::string> found;
  Remarks remarks(out.uuid, found);
  std::string name;
  readText(nvml.nvmlDeviceGetName, name, device);
  out.model = modelOf(name);
  // This query accesses the hardware, so it detects a lost card.
  if (readMemory(nvml, device, out, remarks) == kGpuIsLost) return inWords(kGpuIsLost);
  if (hasUnifiedMemory(out.model)) out.attributes.emplace_back("unifiedMemory", "true");
  readPlace(nvml, device, out, remarks);
  if (const Return answer = readMig(nvml, device, out); answer != kSuccess)
    return "its MIG mode is unknown: " + inWords(answer);
  int major = 0, minor = 0;
  if (Library::call(nvml.nvmlDeviceGetCudaComputeCapability, device, &major, &minor) == kSuccess)
    out.attributes.emplace_back("cudaComputeCapability", std::to_string(major) + "." + std::to_string(minor));
  out.smCount = readSms(nvml, device, coresPerSm(major, minor), out.mig, remarks);
  out.milliTflops = rate(nvml, device, out, major, minor, remarks);
  readErrors(nvml, device, out);
  if (!readComputeMode(nvml, device, out) && out.illness.empty())
    out.illness =
        "ComputeProhibited: its compute mode is PROHIBITED, so that no program computes on it; run nvidia-smi -i " +
        out.uuid + " -c DEFAULT";
  readUse(nvml, device, out, remarks);
  if (out.mig) readTable(nvml, device, out, found);
  all.insert(all.end(), found.begin(), found.end());
  return {};
}

std::string modelOf(std::string name) {
  for (const std::string maker : {"NVIDIA ", "Tesla "})
    if (name.compare(0, maker.size(), maker) == 0) name.erase(0, maker.size());
  std::replace(name.begin(), name.end(), ' ', '-');
  std::replace(name.begin(), name.end(), '|', '-');  // separator of models in a class
  return name;
}

std::string addressOf(const PciInfo& pci) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.0", pci.domain, pci.bus & 0xff, pci.device & 0x1f);
  return text.data();
}

}  // namespace egpu::nvidia
