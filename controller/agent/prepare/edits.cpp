#include "controller/agent/prepare/edits.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "api/v1alpha/host_paths.h"
#include "controller/agent/prepare/host_root.h"
#include "controller/base/printable.h"
#include "controller/base/text.h"
#include "controller/codec/cdi_spec.h"
#include "controller/codec/json/text.h"

namespace egpu::agent {

namespace {

using base::Code;
using base::Result;
using base::Status;

// Limits of the edits of one claim: each of 128 cards needs a node and some variables, and a driver some hundreds of
// files.
constexpr std::size_t kMaxEdits = 2048, kMaxName = 256, kMaxValue = 32 << 10, kMaxBytes = 512 << 10;

constexpr std::string_view kDeviceNodes = "/dev/nvidia*";
constexpr std::string_view kGpu = "nvidia.com/gpu=";
constexpr std::array<std::string_view, 6> kLibraryFolders{"/lib/",       "/lib64/",         "/usr/lib/",
                                                          "/usr/lib64/", "/usr/local/lib/", "/usr/local/nvidia/"};
/// The driver's nodes for the creation and the monitoring of instances.
constexpr std::array<std::string_view, 2> kMigControl{"/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-caps/nvidia-cap2"};
/// Files of the driver, in addition to its libraries.
constexpr std::array<std::string_view, 15> kDriverFiles{"/usr/bin/nvidia-*",
                                                        "/usr/sbin/nvidia-*",
                                                        "/bin/nvidia-*",
                                                        "/sbin/nvidia-*",
                                                        "/usr/local/bin/nvidia-*",
                                                        "/usr/local/nvidia/bin/nvidia-*",
                                                        "/lib/firmware/nvidia/",
                                                        "/usr/lib/firmware/nvidia/",
                                                        "/usr/share/nvidia/",
                                                        "/usr/lib/nvidia/",  // Debian's package
                                                        "/etc/OpenCL/vendors/nvidia.icd",
                                                        "/run/nvidia/driver/",
                                                        "/run/nvidia-persistenced/",
                                                        "/var/run/nvidia-persistenced/",
                                                        "/run/nvidia-fabricmanager/"};
/// Folders, in addition to stateFolder, in which plugins can create symlinks.
constexpr std::array<std::string_view, 3> kPluginsOwn{"/tmp/", "/var/tmp/", "/dev/shm/"};
constexpr std::array<std::string_view, 11> kOptions{"ro",    "rw",      "nosuid",   "nodev", "noexec", "bind",
                                                    "rbind", "private", "rprivate", "slave", "rslave"};

Status refusedEdits(std::string why) { return {Code::invalid, "the provisioner's edits: " + std::move(why)}; }

bool beginsWith(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

template <class List>
bool has(const List& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool isClean(std::string_view path) {
  return v1alpha::isCleanPath(path) && codec::isUtf8(path) && !base::hasControls(path);
}

bool matches(std::string_view path, std::string_view pattern) {
  if (pattern.empty()) return false;
  if (pattern.back() == '*') return beginsWith(path, pattern.substr(0, pattern.size() - 1));
  if (pattern.back() == '/') return beginsWith(path, pattern);
  return path == pattern;
}

template <class List>
bool anyMatches(std::string_view path, const List& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& each) { return matches(path, each); });
}

/// Returns true for a library such as "libcuda.so.535.104" in a library folder.
bool isLibrary(std::string_view path) {
  const auto name = path.substr(path.rfind('/') + 1);
  return anyMatches(path, kLibraryFolders) && beginsWith(name, "lib") && name.find(".so") != std::string_view::npos;
}

/// Returns the target of a host path after resolving symlinks as on the host; nullopt if it does not exist.
std::optional<std::string> resolved(const HostRoot& host, const std::string& path) {
  const auto found = host.open(path);
  return found ? std::optional(host.nameOf(found)) : std::nullopt;
}

/// Checks the edits of one claim.
class Check {
 public:
  Check(const Permitted& permitted, const std::vector<v1alpha::Card>& cards)
      : permitted_(permitted), cards_(cards), host_(permitted.hostRoot) {
    patterns_ = permitted.more;
    if (!permitted.driverRoot.empty()) driver_ = permitted.driverRoot + "/";
    if (permitted.hostRoot.empty()) return;
    // The target of a permitted path is permitted too: /var/run is /run. This excludes folders that plugins can write,
    // as a plugin could choose the target there.
    for (const auto& pattern : permitted.more) {
      const auto slash = pattern.rfind('/');
      if (slash == std::string::npos || slash == 0 || pattern.front() != '/') continue;
      if (anyMatches(pattern, kPluginsOwn) || beginsWith(pattern, permitted.stateFolder + "/")) continue;
      if (const auto folder = resolved(host_, pattern.substr(0, slash)))
        patterns_.push_back(*folder + pattern.substr(slash));
    }
    state_ = resolved(host_, permitted.stateFolder).value_or(permitted.stateFolder);
    if (const auto real = driver_.empty() ? std::nullopt : resolved(host_, permitted.driverRoot)) driver_ = *real + "/";
  }

  Status variable(const std::string& name, const std::string& value) const {
    const bool valid = !name.empty() && name.size() <= kMaxName && (name[0] < '0' || name[0] > '9') &&
                       std::all_of(name.begin(), name.end(), [](char c) {
                         return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
                       });
    if (!valid) return refusedEdits("the variable " + base::quoted(name) + " has no valid name");
    if (name == codec::kPreparedFor) return refusedEdits("the variable " + name + " is reserved for the agent");
    if (value.size() > kMaxValue || value.find('\0') != std::string::npos || !codec::isUtf8(value))
      return refusedEdits("the variable " + name + " has a value that is no text, or longer than 32 KiB");
    return Status::okay();
  }

  Status node(core::DeviceNode& node) {
    if (node.permissions.empty()) node.permissions = "rw";
    const std::string host = node.hostPath.empty() ? node.path : node.hostPath;
    if (!isClean(node.path) || !beginsWith(node.path, "/dev/") || !isClean(host))
      return refusedEdits("the device node " + base::quoted(node.path) + ", of the host's " + base::quoted(host) +
                          ", is no clean path under /dev");
    if (node.permissions.size() > 3 || node.permissions.find_first_not_of("rwm") != std::string::npos)
      return refusedEdits("the device node " + node.path + " has the permissions " + base::quoted(node.permissions) +
                          ", which are not of \"rwm\"");
    for (const auto& path : {node.path, host})
      if (anyMatches(path, kMigControl))
        return refusedEdits("the device node " + path + " gives the right to change or monitor all MIG instances");
    for (const auto& path : {node.path, host})
      if (!ofTheCards(path)) return refusedEdits("the device node " + path + " is of a card that is not the claim's");
    return onHost(host, "the device node", [this](std::string_view path) {
      return ofTheCards(path) && (matches(path, kDeviceNodes) || anyMatches(path, patterns_));
    });
  }

  Status mount(core::Mount& mount) {
    if (mount.options.empty()) mount.options = {"ro", "nosuid", "nodev", "bind"};
    if (!isClean(mount.hostPath) || !isClean(mount.containerPath))
      return refusedEdits("the mount of " + base::quoted(mount.hostPath) + " at " + base::quoted(mount.containerPath) +
                          " does not have two clean paths");
    for (const std::string_view own : {"/proc", "/sys"})
      if (mount.containerPath == own || beginsWith(mount.containerPath, std::string(own) + "/"))
        return refusedEdits("the mount at " + mount.containerPath + " covers a path of the container runtime");
    for (const auto& option : mount.options)
      if (!has(kOptions, option))
        return refusedEdits("the mount at " + mount.containerPath + " has the option " + base::quoted(option) +
                            ", which is not known");
    const bool readOnly = has(mount.options, "ro") && !has(mount.options, "rw");
    if (const std::pair same(mount.hostPath, readOnly); good_.count(same) == 0) {
      if (auto s = mountOf(mount.hostPath, readOnly); !s.ok()) return s;
      good_.insert(same);
    }
    return Status::okay();
  }

  Status device(const std::string& name) const {
    const auto card = [&](const auto& each) { return name == std::string(kGpu) + each.uuid; };
    if (name.size() > kMaxName || !codec::isUtf8(name) || base::hasControls(name))
      return refusedEdits("a CDI device has no valid name");
    if (std::any_of(cards_.begin(), cards_.end(), card) || anyMatches(name, patterns_)) return Status::okay();
    return refusedEdits("the CDI device " + name + " is neither a card of the claim nor permitted by the class");
  }

 private:
  /// Returns false for the numbered node of an NVIDIA card that is not among the claim's cards.
  bool ofTheCards(std::string_view path) const {
    constexpr std::string_view name = "nvidia";
    const auto last = path.substr(path.rfind('/') + 1);
    if (!beginsWith(last, name)) return true;
    const auto number = last.substr(name.size());
    if (number.empty() || number.find_first_not_of("0123456789") != std::string_view::npos) return true;
    return std::any_of(cards_.begin(), cards_.end(),
                       [&](const auto& card) { return std::to_string(card.index) == number; });
  }
  std::string_view onSystem(std::string_view path) const {
    const std::string& root = permitted_.systemRoot;
    const bool below = !root.empty() && beginsWith(path, root + "/");
    return below ? path.substr(root.size()) : path;
  }
  bool inState(std::string_view path) const {
    return beginsWith(path, permitted_.stateFolder + "/") || (!state_.empty() && beginsWith(path, state_ + "/"));
  }
  Status mountOf(const std::string& hostPath, bool readOnly) const {
    return onHost(hostPath, "the mount of", [this, readOnly](std::string_view path) {
      if (anyMatches(path, patterns_) || inState(path)) return true;
      return readOnly && (isLibrary(path) || anyMatches(path, kDriverFiles) || matches(path, driver_));
    });
  }
  template <class May>
  Status onHost(const std::string& path, const std::string& what, const May& may) const {
    const auto no = [&](const std::string& why) { return refusedEdits(what + " " + path + " " + why); };
    const auto allowed = [&](std::string_view at) { return may(at) || may(onSystem(at)); };
    if (!allowed(path)) return no("is not permitted; the class's parameter hostPaths permits more");
    if (permitted_.hostRoot.empty()) return Status::okay();
    if (host_.open(path, O_PATH, RESOLVE_NO_SYMLINKS)) return Status::okay();  // it has no symlink
    const auto real = resolved(host_, path);
    if (!real) return no("does not exist on this node");
    return allowed(*real) ? Status::okay() : no("leads to " + *real + ", which is not permitted");
  }

  const Permitted& permitted_;
  const std::vector<v1alpha::Card>& cards_;
  const HostRoot host_;
  std::set<std::pair<std::string, bool>>
      good_;  ///< cache of permitted host paths, with the read-only flag of the mount
  std::vector<std::string> patterns_;
  std::string state_;
  std::string driver_;  ///< pattern; empty = the driver's files are in the usual folders
};

std::size_t sizeOf(const core::ContainerEdits& edits) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : edits.env) bytes += name.size() + value.size();
  for (const auto& node : edits.deviceNodes) bytes += node.path.size() + node.hostPath.size();
  for (const auto& mount : edits.mounts) {
    bytes += mount.hostPath.size() + mount.containerPath.size();
    for (const auto& option : mount.options) bytes += option.size() + 1;
  }
  for (const auto& name : edits.cdiDevices) bytes += name.size();
  return bytes;
}

}  // namespace

Result<std::vector<std::string>> parseHostPaths(std::string_view text) {
  std::string wrong;
  auto patterns = v1alpha::parseHostPaths(text, &wrong);
  if (patterns) return std::move(*patterns);
  return Status(Code::invalid, "hostPaths: " + base::quoted(wrong) + " " + std::string(v1alpha::kNoHostPath));
}

Result<core::ContainerEdits> checkEdits(core::ContainerEdits edits, const Permitted& permitted,
                                        const std::vector<v1alpha::Card>& cards) {
  const auto count = edits.env.size() + edits.deviceNodes.size() + edits.mounts.size() + edits.cdiDevices.size();
  if (count > kMaxEdits || sizeOf(edits) > kMaxBytes)
    return refusedEdits("more than 2048 of them, or more than 512 KiB");
  if (!edits.hooks.empty()) return refusedEdits("plugins can't request hooks");
  Check check(permitted, cards);
  for (const auto& [name, value] : edits.env)
    if (auto s = check.variable(name, value); !s.ok()) return s;
  for (auto& node : edits.deviceNodes)
    if (auto s = check.node(node); !s.ok()) return s;
  for (auto& mount : edits.mounts)
    if (auto s = check.mount(mount); !s.ok()) return s;
  for (const auto& name : edits.cdiDevices)
    if (auto s = check.device(name); !s.ok()) return s;
  return edits;
}

}  // namespace egpu::agent
