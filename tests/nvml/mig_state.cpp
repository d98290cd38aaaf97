#include "tests/nvml/mig_state.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>

namespace egpu::nvidia::testing {

FakeInstance* FakeInstances::find(uint32_t device, uint32_t id) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const FakeInstance& each) {
    return each.exists != 0 && each.device == device && each.id == id;
  });
  return at == all.end() ? nullptr : &*at;
}

std::string fakeInstancesPath() {
  if (const char* given = std::getenv("ELASTICGPU_FAKE_MIG")) return given;
  const char* node = std::getenv("ELASTICGPU_FAKE_NVML");
  return node ? node + std::string(".mig") : std::string();
}

bool withFakeInstances(const std::function<bool(FakeInstances&)>& change) {
  const std::string path = fakeInstancesPath();
  int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  FakeInstances now;
  // A folder that can't be written has no instances, as long as none is created.
  if (fd < 0) return !change(now);
  bool good = flock(fd, LOCK_EX) == 0;
  const ssize_t size = good ? pread(fd, &now, sizeof now, 0) : -1;
  good = good && (size == 0 || size == static_cast<ssize_t>(sizeof now));
  if (good && change(now)) good = pwrite(fd, &now, sizeof now, 0) == static_cast<ssize_t>(sizeof now);
  close(fd);
  return good;
}

std::string uuidOfMigDevice(const std::string& card, uint32_t gpuInstance, uint32_t computeInstance) {
  if (card.size() < 12) return {};
  char ending[16];
  std::snprintf(ending, sizeof ending, "%02x%02x", gpuInstance & 0xff, computeInstance & 0xff);
  return "MIG-" + card.substr(4, card.size() - 8) + ending;
}

std::vector<FakeMigDevice> visibleMigDevices(const FakeNode& node, std::size_t place) {
  if (node.devices.at(place).mig != 1) return {};
  std::map<std::string, unsigned> minors;
  std::ifstream in(node.capabilities);
  std::string capability;
  for (unsigned minor = 0; in >> capability >> minor;) minors[capability] = minor;
  const FakeDevice& card = node.devices.at(place);
  const std::string root = "gpu" + std::to_string(card.minor) + "/gi";
  const auto isPermitted = [&](const std::string& name) {
    const auto found = minors.find(name + "/access");
    return found != minors.end() && isReachable("/dev/nvidia-caps/nvidia-cap" + std::to_string(found->second));
  };
  std::vector<FakeMigDevice> out;
  withFakeInstances([&](FakeInstances& now) {
    for (const FakeInstance& each : now.all)
      for (uint32_t id = 0; each.exists != 0 && each.device == place && id < each.compute.size(); ++id) {
        const std::string instance = root + std::to_string(each.id);
        if (each.compute.at(id) == 0) continue;
        if (node.deviceNodes && !(isPermitted(instance) && isPermitted(instance + "/ci" + std::to_string(id))))
          continue;
        const auto profile = std::find_if(card.profiles.begin(), card.profiles.end(),
                                          [&](const FakeProfile& p) { return p.id == each.profileId; });
        const bool known = profile != card.profiles.end();
        out.push_back({each.id, id, uuidOfMigDevice(card.uuid, each.id, id), known ? profile->memoryMib << 20 : 0,
                       known ? profile->sms : 0, each.slices});
      }
    return false;
  });
  return out;
}

}  // namespace egpu::nvidia::testing
