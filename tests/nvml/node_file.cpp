#include "tests/nvml/node_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <tuple>

namespace egpu::nvidia::testing {
namespace {

template <class Value>
void take(const YAML::Node& from, const char* name, Value& out) {
  if (from[name]) out = from[name].as<Value>();
}

Answers answersOf(const YAML::Node& from, const char* name) {
  Answers out;
  for (const auto& entry : from[name]) out[entry.first.as<std::string>()] = entry.second.as<int64_t>();
  return out;
}

FakeProfile readProfile(const YAML::Node& from) {
  FakeProfile out;
  take(from, "name", out.name), take(from, "number", out.number), take(from, "id", out.id);
  take(from, "slices", out.slices), take(from, "size", out.size), take(from, "starts", out.starts);
  take(from, "memoryMib", out.memoryMib), take(from, "sms", out.sms), take(from, "ofa", out.ofa);
  out.count = out.starts.size();
  take(from, "count", out.count);
  return out;
}

/// Reads `common`, which applies to all devices, then the device's own values.
FakeDevice readDevice(const YAML::Node& common, const YAML::Node& own) {
  FakeDevice out;
  for (const YAML::Node& n : {common, own}) {
    if (!n) continue;
    take(n, "uuid", out.uuid), take(n, "name", out.name), take(n, "pci", out.pci), take(n, "path", out.path);
    take(n, "numa", out.numa), take(n, "minor", out.minor), take(n, "memory", out.memory);
    take(n, "reserved", out.reserved), take(n, "cores", out.cores), take(n, "clock", out.clock);
    take(n, "mig", out.mig), take(n, "pendingMig", out.pendingMig);
    take(n, "computeSlices", out.computeSlices);
    for (const auto& profile : n["migProfiles"]) out.profiles.push_back(readProfile(profile));
    take(n, "lost", out.lost), take(n, "ecc", out.ecc), take(n, "remapPending", out.remapPending);
    take(n, "remapFailed", out.remapFailed), take(n, "retiredPending", out.retiredPending);
    take(n, "linksDown", out.linksDown), take(n, "xids", out.xids), take(n, "recoveryAction", out.recoveryAction);
    take(n, "computeMode", out.computeMode), take(n, "persistence", out.persistence);
    take(n, "used", out.used), take(n, "sm", out.sm);
    for (const auto& [key, all] : {std::pair{"processes", &out.processes}, std::pair{"mpsProcesses", &out.mpsProcesses},
                                   std::pair{"graphicsProcesses", &out.graphicsProcesses}})
      for (const auto& process : n[key])
        all->push_back({process[0].as<uint64_t>(), process[1].as<uint64_t>(),
                        process.size() > 2 ? process[2].as<int64_t>() : -1,
                        process.size() > 3 ? process[3].as<int64_t>() : -1});
    if (const auto compute = n["compute"]) {
      out.computeMajor = compute[0].as<int64_t>();
      out.computeMinor = compute[1].as<int64_t>();
    }
    if (n["errors"]) out.errors = answersOf(n, "errors");
  }
  if (out.pendingMig < 0) out.pendingMig = out.mig;
  return out;
}

/// nvlinks: [[card, card, links], …]; nvswitch: {links: n, cards: […]}, all cards if `cards` is missing.
void wire(const YAML::Node& file, FakeNode& node) {
  for (const auto& entry : file["nvlinks"]) {
    const auto a = entry[0].as<std::size_t>(), b = entry[1].as<std::size_t>();
    for (int n = entry[2].as<int>(); n > 0; --n) {
      node.devices.at(a).links.push_back({static_cast<int64_t>(b)});
      node.devices.at(b).links.push_back({static_cast<int64_t>(a)});
    }
  }
  const auto nvswitch = file["nvswitch"];
  if (!nvswitch) return;
  for (std::size_t i = 0; i < node.devices.size(); ++i) {
    bool there = !nvswitch["cards"];
    for (const auto& card : nvswitch["cards"]) there = there || card.as<std::size_t>() == i;
    for (int n = there ? nvswitch["links"].as<int>() : 0; n > 0; --n) node.devices[i].links.push_back({});
  }
}

}  // namespace

FakeNode readFakeNode(const std::string& path) {
  const YAML::Node file = YAML::LoadFile(path);
  FakeNode out;
  take(file, "driver", out.driver), take(file, "cuda", out.cuda), take(file, "count", out.count);
  take(file, "memoryLimits", out.memoryLimits);
  take(file, "opens", out.opens), take(file, "unterminated", out.unterminated);
  take(file, "deviceNodes", out.deviceNodes), take(file, "capabilities", out.capabilities);
  for (const auto& symbol : file["missing"]) out.missing.insert(symbol.as<std::string>());
  out.errors = answersOf(file, "errors");
  out.slow = answersOf(file, "slow");
  for (const auto& device : file["devices"]) out.devices.push_back(readDevice(file["each"], device));
  wire(file, out);
  return out;
}

std::shared_ptr<const FakeNode> currentNode() {
  using Version = std::tuple<std::string, int64_t, int64_t, uint64_t>;
  static std::mutex mutex;
  static Version known;
  static std::shared_ptr<const FakeNode> node;
  const char* path = std::getenv("ELASTICGPU_FAKE_NVML");
  struct stat info {};
  if (!path || stat(path, &info) != 0) return nullptr;
  const Version version{path, info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ino};
  const std::lock_guard lock(mutex);
  if (version == known) return node;
  try {
    node = std::make_shared<const FakeNode>(readFakeNode(path));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "fake NVML: %s: %s\n", path, e.what());
    node = nullptr;
  }
  known = version;
  return node;
}

bool isReachable(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) close(fd);
  return fd >= 0 || errno == ENXIO || errno == ENODEV;
}

std::vector<std::size_t> visiblePlaces(const FakeNode& node) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < node.devices.size(); ++i)
    if (!node.deviceNodes || isReachable("/dev/nvidia" + std::to_string(node.devices[i].minor))) out.push_back(i);
  return out;
}

}  // namespace egpu::nvidia::testing
