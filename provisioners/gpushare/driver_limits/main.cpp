// Limits the memory of containers through NVIDIA's driver. The container runtime executes it as a hook, named in the
// CDI files of devices with isolation driver, and the agent executes it in the host's namespaces. All runs exclude each
// other. It must run on hosts of any distribution, so it uses only the C library and NVML.
//
//   driver-limits create  STATE DEVICE   createRuntime hook: limits the container on standard input, or fails
//   driver-limits remove  STATE DEVICE   poststop hook: releases the part of the container on standard input
//   driver-limits apply   STATE          puts all amounts into force: "problem DEVICE TEXT" lines
//   driver-limits usage   STATE          "used DEVICE CARD BYTES CGROUP" lines
//   driver-limits release STATE DEVICE…  forgets devices that are no longer prepared
//   driver-limits probe   STATE CARD…    "CARD available", or "CARD" and why it has no memory limits
//
// $ELASTICGPU_CGROUPS, $ELASTICGPU_PROC: other folders than /sys/fs/cgroup and /proc, for tests.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "provisioners/gpushare/driver_limits/container.h"
#include "provisioners/gpushare/driver_limits/driver.h"
#include "provisioners/gpushare/driver_limits/enforcer.h"
#include "provisioners/gpushare/driver_limits/records.h"

namespace egpu::driver_limits {
namespace {

/// Lowest cgroup that a probe limits. It has no processes.
constexpr const char* kProbe = "/elastic-gpu-memory-probe";

int fail(const std::string& why) {
  std::cerr << "elastic-gpu: " << why << "\n";
  return 1;
}

std::string folderFrom(const char* variable, const char* otherwise) {
  const char* given = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): the program has one thread
  return given != nullptr && *given != '\0' ? given : otherwise;
}

/// Reads the container's state, which the runtime writes to standard input.
std::string readInput(ContainerState& out) {
  const std::string text((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  if (auto wrong = readState(text, out); !wrong.empty()) return wrong;
  return isRecordName(out.id) ? std::string() : "the container's id \"" + out.id + "\" can't name a file";
}

/// Removes line breaks, which end a line of the output.
std::string inOneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Sets a limit for a new cgroup and reads it back. Returns why the card has no memory limits; empty if it has.
std::string probe(NvmlDriver& driver, const Cgroups& cgroups, const std::string& card) {
  if (auto why = driver.whyUnsuitable(card); !why.empty()) return why;
  const uint64_t memory = driver.memoryOf(card);
  if (memory == 0) return "the memory of the card is unknown";
  const std::string cgroup = cgroups.root() + kProbe;
  if (::mkdir(cgroup.c_str(), 0755) != 0 && errno != EEXIST)
    return "cannot make " + cgroup + ": " + std::strerror(errno);  // NOLINT(concurrency-mt-unsafe): one thread
  InForce found;
  auto why = driver.set(card, cgroup, {memory / 2, 0});
  if (why.empty()) why = driver.get(card, cgroup, found);
  if (why.empty() && (found.limits.hard > memory / 2 || found.limits.soft != 0))
    why = "the driver does not keep the memory limits of cgroups";
  (void)driver.set(card, cgroup, {nvidia::kNoMemoryLimit, 0});
  ::rmdir(cgroup.c_str());
  return why;
}

int probeAll(const Cgroups& cgroups, const std::vector<std::string>& cards) {
  std::string why = cgroups.whyUnsuitable();
  const auto driver = why.empty() ? NvmlDriver::open(why) : nullptr;
  for (const auto& card : cards) {
    const auto its = driver ? probe(*driver, cgroups, card) : why;
    std::cout << card << " " << inOneLine(its.empty() ? "available" : its) << "\n";
  }
  return 0;
}

/// Returns why a hook or command failed; empty = success.
std::string run(const std::string& verb, Enforcer& enforcer, const Cgroups& cgroups,
                const std::vector<std::string>& devices, const ContainerState& container) {
  if (verb == "create") {
    std::string cgroup;
    if (auto wrong = cgroups.folderOf(container.pid, cgroup); !wrong.empty()) return wrong;
    return enforcer.create(devices.front(), container.id, cgroup);
  }
  if (verb == "remove") enforcer.remove(devices.front(), container.id);
  if (verb == "release")
    for (const auto& device : devices) enforcer.release(device);
  if (verb == "apply") enforcer.apply();
  if (verb == "usage")
    for (const auto& each : enforcer.usage())
      std::cout << "used " << each.device << " " << each.card << " " << each.used << " " << each.cgroup << "\n";
  for (const auto& problem : enforcer.problems())
    std::cout << "problem " << (problem.device.empty() ? "-" : problem.device) << " " << inOneLine(problem.text)
              << "\n";
  return {};
}

int command(const std::vector<std::string>& words) {
  const std::string usage =
      "usage: driver-limits create|remove STATE DEVICE, release STATE DEVICE…, apply|usage STATE, probe STATE CARD…";
  if (words.size() < 2) return fail(usage);
  const std::string& verb = words[0];
  const bool isHook = verb == "create" || verb == "remove";
  const bool hasDevices = isHook || verb == "release";
  const std::vector<std::string> names(words.begin() + 2, words.end());
  if (!hasDevices && verb != "apply" && verb != "usage" && verb != "probe") return fail(usage);
  if (hasDevices && (names.empty() || !std::all_of(names.begin(), names.end(), isRecordName))) return fail(usage);
  if (isHook && names.size() != 1) return fail(usage);
  ContainerState container;
  if (isHook)
    if (auto wrong = readInput(container); !wrong.empty()) return fail(wrong);
  const Records records(words[1]);
  if (auto wrong = records.open(); !wrong.empty()) return fail(wrong);
  const int lock = ::open(records.lockFile().c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (lock < 0 || ::flock(lock, LOCK_EX) != 0) return fail("cannot lock " + records.lockFile());
  const Cgroups cgroups(folderFrom("ELASTICGPU_CGROUPS", "/sys/fs/cgroup"), folderFrom("ELASTICGPU_PROC", "/proc"));
  if (verb == "probe") return probeAll(cgroups, names);
  std::string why = cgroups.whyUnsuitable();
  const auto driver = why.empty() ? NvmlDriver::open(why) : nullptr;
  if (!driver) return fail(why);
  Enforcer enforcer(records, *driver, cgroups.root());
  why = run(verb, enforcer, cgroups, names, container);
  return why.empty() ? 0 : fail("the memory of the container can't be limited: " + why);
}

}  // namespace
}  // namespace egpu::driver_limits

int main(int argc, char** argv) {
  ::umask(0077);
  try {
    return egpu::driver_limits::command({argv + std::min(argc, 1), argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "elastic-gpu: " << error.what() << "\n";
    return 1;
  }
}
