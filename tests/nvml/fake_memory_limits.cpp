// Memory limits per cgroup: README.md. The state is in the folders of the cgroups, so it ends with them, and all
// processes agree. The caller excludes concurrent calls, as the product does.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "provisioners/nvidia/nvml_memory_limits.h"
#include "tests/nvml/request.h"

namespace egpu::nvidia::testing {
namespace {

namespace fs = std::filesystem;
using Values = std::map<std::string, unsigned long long>;  ///< by uuid

/// Counts the begins and ends of calls, and kills the process at the given one.
void step() {
  static std::atomic<long> steps{0};
  const char* at = std::getenv("ELASTICGPU_FAKE_NVML_KILL");
  if (at != nullptr && steps++ == std::atol(at)) ::kill(::getpid(), SIGKILL);  // NOLINT(cert-err34-c)
}

Values read(const fs::path& file) {
  Values out;
  std::ifstream in(file);
  std::string uuid;
  for (unsigned long long value = 0; in >> uuid >> value;) out[uuid] = value;
  return out;
}

unsigned long long valueOf(const fs::path& file, const std::string& uuid, unsigned long long otherwise) {
  const auto all = read(file);
  const auto found = all.find(uuid);
  return found == all.end() ? otherwise : found->second;
}

void write(const fs::path& file, const std::string& uuid, unsigned long long value) {
  auto all = read(file);
  all[uuid] = value;
  std::ofstream out(file.string() + "~");
  for (const auto& [card, bytes] : all) out << card << " " << bytes << "\n";
  out.close();
  fs::rename(file.string() + "~", file);
}

/// Adds a change of a soft limit to the parents, up to the first one without the controller.
void propagate(const fs::path& cgroup, const std::string& uuid, unsigned long long before, unsigned long long after) {
  for (fs::path parent = cgroup.parent_path(); fs::exists(parent / "dmem.min"); parent = parent.parent_path())
    write(parent / "dmem.min", uuid, valueOf(parent / "dmem.min", uuid, 0) + after - before);
}

/// Returns an error for a call that no back end can serve.
Return check(const NvmlCall& r, const char* cgroup) {
  if (r.answer != kSuccess) return r.answer;
  if (r.node->memoryLimits.empty() || r.device->mig == kMigEnabled) return kNotSupported;
  return cgroup == nullptr || !fs::is_directory(cgroup) ? kNotFound : kSuccess;
}

Return setMemoryLimits(Device device, const SetMemoryLimits* limits) {
  step();
  const NvmlCall r = begin("nvmlDeviceSetMemoryLimits_v1", device);
  if (const Return answer = check(r, limits->cgroup); answer != kSuccess) return answer;
  const fs::path cgroup = limits->cgroup;
  const auto& uuid = r.device->uuid;
  if (limits->soft > limits->hard || (limits->hard > r.device->memory && limits->hard != kNoMemoryLimit))
    return kInvalidArgument;
  if (r.node->memoryLimits == "dmem") {
    if (!fs::exists(cgroup / "dmem.min")) return kNotFound;
    const auto before = valueOf(cgroup / "dmem.min", uuid, 0);
    write(cgroup / "dmem.max", uuid, limits->hard);
    write(cgroup / "dmem.min", uuid, limits->soft);
    propagate(cgroup, uuid, before, limits->soft);
  } else {
    write(cgroup / "misc.hard", uuid, limits->hard);
    write(cgroup / "misc.soft", uuid, limits->soft);
  }
  step();
  return kSuccess;
}

Return getMemoryLimits(Device device, MemoryLimits* limits) {
  const NvmlCall r = begin("nvmlDeviceGetMemoryLimits_v1", device);
  if (const Return answer = check(r, limits->cgroup); answer != kSuccess) return answer;
  fs::path cgroup = limits->cgroup;
  const auto& uuid = r.device->uuid;
  limits->used = valueOf(cgroup / "fake.used", uuid, 0);
  if (r.node->memoryLimits == "dmem") {
    while (!fs::exists(cgroup / "dmem.min") && cgroup.has_relative_path()) cgroup = cgroup.parent_path();
    limits->hard = valueOf(cgroup / "dmem.max", uuid, kNoMemoryLimit);
    limits->soft = valueOf(cgroup / "dmem.min", uuid, 0);
    return kSuccess;
  }
  limits->hard = valueOf(cgroup / "misc.hard", uuid, kNoMemoryLimit);
  limits->soft = valueOf(cgroup / "misc.soft", uuid, 0);
  return fs::exists(cgroup / "misc.hard") ? kSuccess : kNotSupported;
}

}  // namespace
}  // namespace egpu::nvidia::testing

using namespace egpu::nvidia;

EXPORT(nvmlDeviceSetMemoryLimits_v1, setMemoryLimits)
EXPORT(nvmlDeviceGetMemoryLimits_v1, getMemoryLimits)
