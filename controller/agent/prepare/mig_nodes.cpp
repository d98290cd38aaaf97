#include "controller/agent/prepare/mig_nodes.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "controller/agent/prepare/host_root.h"

namespace egpu::agent {

namespace {

// Modes of NVIDIA's driver; the group's bit of the first is ours.
constexpr mode_t kConfigMode = 0440, kInstanceMode = 0444;
constexpr unsigned kMaxCapsMajor = 4095, kMaxMinor = 1U << 20;
constexpr std::string_view kFolder = "/dev/nvidia-caps";

std::string failedNode(const std::string& what) { return what + " (" + std::generic_category().message(errno) + ")"; }

/// Returns the major number of the capabilities' nodes; nullopt if the driver has none.
std::optional<unsigned> capsMajor(const std::string& proc) {
  std::ifstream in(proc + "/devices");
  for (std::string line; std::getline(in, line) && line != "Block devices:";) {
    unsigned number = 0;
    char name[65] = {};
    if (std::sscanf(line.c_str(), "%u %64s", &number, name) == 2 &&  // NOLINT(cert-err34-c)
        name == std::string_view("nvidia-caps") && number > 0 && number <= kMaxCapsMajor)
      return number;
  }
  return std::nullopt;
}

struct Capability {
  std::string name;  ///< "config", "gpu0/gi1/ci0/access"
  unsigned minor = 0;
};

std::vector<Capability> capabilities(const std::string& proc) {
  std::vector<Capability> out;
  std::ifstream in(proc + "/driver/nvidia-caps/mig-minors");
  for (Capability each; in >> each.name >> each.minor;)
    if (each.minor <= kMaxMinor) out.push_back(each);
  return out;
}

/// Creates a node unless it exists.
bool made(const base::UniqueFd& folder, const std::string& name, mode_t mode, dev_t number, const MakeNode& make) {
  struct stat is {};
  if (::fstatat(folder.get(), name.c_str(), &is, AT_SYMLINK_NOFOLLOW) == 0)
    return (S_ISCHR(is.st_mode) && is.st_rdev == number) || (errno = EEXIST, false);
  if (make(folder.get(), name.c_str(), S_IFCHR | mode, number) != 0) return errno == EEXIST;
  return ::fchmodat(folder.get(), name.c_str(), mode, 0) == 0;  // mknod applies the umask
}

/// Gives the group access to an existing node.
bool granted(const base::UniqueFd& folder, const std::string& name, gid_t group) {
  struct stat is {};
  if (::fstatat(folder.get(), name.c_str(), &is, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISCHR(is.st_mode)) return false;
  if (is.st_gid == group && (is.st_mode & 07777) == kConfigMode) return true;
  return ::fchownat(folder.get(), name.c_str(), 0, group, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fchmodat(folder.get(), name.c_str(), kConfigMode, 0) == 0;
}

}  // namespace

std::vector<std::string> makeMigNodes(const MigNodesOptions& options, const std::vector<int64_t>& cards) {
  const HostRoot host(options.hostRoot);
  const auto major = capsMajor(options.proc);
  const auto all = capabilities(options.proc);
  if (!major || all.empty()) return {};
  if (const auto dev = host.open("/dev", O_RDONLY | O_DIRECTORY)) ::mkdirat(dev.get(), "nvidia-caps", 0755);
  const auto folder = host.open(std::string(kFolder), O_RDONLY | O_DIRECTORY);
  if (!folder || host.nameOf(folder) != kFolder) return {failedNode(std::string(kFolder))};
  std::vector<std::string> missing;
  for (const Capability& each : all) {
    const bool config = each.name == "config";
    const bool ofCard = std::any_of(cards.begin(), cards.end(), [&](int64_t minor) {
      return each.name.starts_with("gpu" + std::to_string(minor) + "/");
    });
    if (!config && !ofCard) continue;
    const std::string name = "nvidia-cap" + std::to_string(each.minor);
    const mode_t mode = config ? kConfigMode : kInstanceMode;
    if (!made(folder, name, mode, makedev(*major, each.minor), options.make) ||
        (config && !granted(folder, name, options.group)))
      missing.push_back(failedNode(name));
  }
  return missing;
}

}  // namespace egpu::agent
