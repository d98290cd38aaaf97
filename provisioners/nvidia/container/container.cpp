#include "provisioners/nvidia/container/container.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "provisioners/nvidia/container/cdi_files.h"
#include "provisioners/nvidia/container/device_nodes.h"
#include "provisioners/nvidia/container/driver_files.h"
#include "provisioners/nvidia/container/host_files.h"
#include "provisioners/nvidia/library.h"
#include "provisioners/nvidia/system.h"

namespace egpu::nvidia {
namespace {

constexpr std::size_t kMaxReported = 64;  // maximum remarks

/// Properties of this machine that a container needs.
struct Machine {
  std::map<std::string, int64_t> minors;  ///< minor numbers by uuid of the card
  std::string driver;                     ///< version of the running driver; empty = unknown
};

bool knows(const Machine& machine, const sdk::Card& card) { return machine.minors.count(card.uuid) != 0; }

void askNvml(Machine& machine) {
  std::string why;
  bool absent = false;
  const auto nvml = Library::open(why, absent);
  unsigned count = 0;
  if (!nvml || Library::call(nvml->nvmlDeviceGetCount_v2, &count) != kSuccess) return;
  char text[kTextSize + 1] = {};
  if (machine.driver.empty() && Library::call(nvml->nvmlSystemGetDriverVersion, text, kTextSize) == kSuccess)
    machine.driver = text;
  constexpr unsigned kMaxCards = 64, kMaxMinor = 1023;
  for (unsigned i = 0; i < std::min(count, kMaxCards); ++i) {
    Device device = nullptr;
    unsigned minor = 0;
    char uuid[kTextSize + 1] = {};
    if (Library::call(nvml->nvmlDeviceGetHandleByIndex_v2, i, &device) == kSuccess &&
        Library::call(nvml->nvmlDeviceGetUUID, device, uuid, kTextSize) == kSuccess && isUuid(uuid) &&
        Library::call(nvml->nvmlDeviceGetMinorNumber, device, &minor) == kSuccess && minor <= kMaxMinor)
      machine.minors.emplace(uuid, minor);
  }
}

/// Reads the kernel's information, and queries NVML, which takes longer, only for missing values.
Machine readMachine(const sdk::Device& device) {
  Machine out;
  for (const KernelCard& card : kernelCards())
    if (!card.uuid.empty() && card.minor >= 0) out.minors.emplace(card.uuid, card.minor);
  std::ifstream version(rooted("/sys/module/nvidia/version"));
  std::getline(version, out.driver);
  if (!isVersion(out.driver)) out.driver.clear();
  const bool all =
      std::all_of(device.cards.begin(), device.cards.end(), [&](const auto& card) { return knows(out, card); });
  if (!all || out.driver.empty()) askNvml(out);
  return out;
}

/// Finds the minor numbers of the device's cards; none if no card is on this machine.
sdk::Status findCards(const sdk::Device& device, Machine& machine, std::vector<int64_t>& minors) {
  machine = readMachine(device);
  std::string missing;
  for (const auto& card : device.cards) {
    const auto found = machine.minors.find(card.uuid);
    if (found == machine.minors.end())
      missing = card.uuid;
    else
      minors.push_back(found->second);
  }
  if (minors.empty() || missing.empty()) return sdk::ok();
  return sdk::unavailable("card " + missing + " is not among those of this machine that the driver reaches");
}

/// Replies edits for a simulated node, on which no process opens them.
void mountSimulated(sdk::Call& call, const sdk::Device& device) {
  for (const auto& card : device.cards) {
    call.deviceNode("/dev/nvidia" + std::to_string(card.index));
    call.cdiDevice("nvidia.com/gpu=" + card.uuid);
  }
  call.deviceNode("/dev/nvidiactl");
  call.deviceNode("/dev/nvidia-uvm");
}

/// True if the remark is new: a remark that applies to all containers of a machine is logged only once.
bool isNews(const std::string& remark) {
  static std::mutex mutex;
  static std::set<std::string> reported;
  const std::lock_guard lock(mutex);
  return reported.size() < kMaxReported && reported.insert(remark).second;
}

void logNews(sdk::Call& call, const std::vector<std::string>& remarks) {
  for (const std::string& remark : remarks)
    if (isNews(remark)) call.log(EGPU_WARN, remark);
}

std::string joined(const std::vector<std::string>& uuids) {
  std::string out;
  for (const std::string& uuid : uuids) out += (out.empty() ? "" : ",") + uuid;
  return out;
}

/// True for a path of the library under any of its names: "libcuda.so", "libcuda.so.1".
bool isLibrary(const std::string& path, const std::string& name) {
  const auto base = path.substr(path.rfind('/') + 1);
  return base.compare(0, name.size(), name) == 0 && (base.size() == name.size() || base[name.size()] == '.');
}

/// Replies the driver's files, with stand-ins in place of the libraries that they replace. Returns the names of the
/// replaced ones.
std::set<std::string> mountDriver(sdk::Call& call, const std::vector<DriverFile>& files,
                                  const std::vector<StandIn>& standIns) {
  std::set<std::string> replaced;
  for (const auto& file : files) {
    const auto standIn =
        std::find_if(standIns.begin(), standIns.end(), [&](const auto& each) { return isLibrary(file.to, each.name); });
    if (standIn == standIns.end()) {
      call.mount(rooted(file.from), file.to, file.options);
      continue;
    }
    if (replaced.insert(standIn->name).second) call.mount(rooted(file.from), standIn->driverAt, file.options);
    call.mount(standIn->path, file.to, file.options);
  }
  return replaced;
}

/// Replies device nodes and the driver's files; returns true if there are driver files. `replaced`: as of mountDriver.
bool mountFiles(sdk::Call& call, const Machine& machine, const std::vector<int64_t>& minors,
                const std::vector<StandIn>& standIns, std::set<std::string>& replaced,
                std::vector<std::string>& remarks) {
  for (const std::string& path : deviceNodes(minors)) call.deviceNode(path, "rw", rooted(path));
  const auto files = driverFiles(machine.driver);
  replaced = mountDriver(call, files, standIns);
  if (files.empty())
    remarks.push_back("no library of NVIDIA's driver " + machine.driver + " is in the " +
                      (driverRoot().isHosts() ? "host's" : "driver root's") +
                      " /etc/ld.so.cache or its usual folders: containers get their cards' device nodes alone");
  return !files.empty();
}

}  // namespace

sdk::Status mountCards(sdk::Call& call, const sdk::Device& device, const std::vector<StandIn>& standIns) {
  Machine machine;
  std::vector<int64_t> minors;
  if (sdk::Status status = findCards(device, machine, minors); status.code != EGPU_OK) return status;
  std::vector<std::string> uuids, remarks;
  for (const auto& card : device.cards) uuids.push_back(card.uuid);
  bool complete = false;
  if (minors.empty()) {
    mountSimulated(call, device);
  } else if (standIns.empty() && offeredByCdi(uuids, remarks)) {
    for (const std::string& uuid : uuids) call.cdiDevice("nvidia.com/gpu=" + uuid);
    complete = true;
  } else {
    std::set<std::string> replaced;
    complete = mountFiles(call, machine, minors, standIns, replaced, remarks);
    if (!standIns.empty() && replaced.count(standIns.front().name) == 0)
      return sdk::unavailable("this machine has no " + standIns.front().name + " of NVIDIA's driver " + machine.driver +
                              " for the limiter to replace; install the driver's libraries");
  }
  logNews(call, remarks);
  // If NVIDIA's runtime is the node's default, it adds the cards that this variable names; "void" adds nothing.
  call.env("NVIDIA_VISIBLE_DEVICES", complete ? "void" : joined(uuids));
  return sdk::ok();
}

sdk::Status mountInstances(sdk::Call& call, const sdk::Device& device, const MountedInstances& instances) {
  Machine machine;
  std::vector<int64_t> minors;
  if (sdk::Status status = findCards(device, machine, minors); status.code != EGPU_OK) return status;
  if (minors.empty()) return sdk::unavailable("the card of the device's instances is not on this machine");
  std::set<std::string> replaced;
  std::vector<std::string> remarks;
  const bool complete = mountFiles(call, machine, minors, {}, replaced, remarks);
  for (const std::string& path : instances.nodes) call.deviceNode(path, "rw", rooted(path));
  logNews(call, remarks);
  call.env("NVIDIA_VISIBLE_DEVICES", complete ? "void" : joined(instances.uuids));
  return sdk::ok();
}

sdk::Status stageCards(const sdk::Device& device) {
  Machine machine;
  std::vector<int64_t> minors;
  if (sdk::Status status = findCards(device, machine, minors); status.code != EGPU_OK) return status;
  return minors.empty() ? sdk::noChange() : checkNodes();
}

}  // namespace egpu::nvidia
