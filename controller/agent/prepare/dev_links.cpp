#include "controller/agent/prepare/dev_links.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "controller/agent/prepare/host_root.h"

namespace egpu::agent {

namespace {

constexpr mode_t kForAll = 0666;
constexpr unsigned kMaxMajor = 4095;
constexpr std::string_view kDev = "/dev/";

std::string failed(const std::string& what) { return what + " (" + std::generic_category().message(errno) + ")"; }

/// Opens a folder of the host to create entries in it.
base::UniqueFd folder(const HostRoot& host, const std::string& path) { return host.open(path, O_RDONLY | O_DIRECTORY); }

/// Returns the number and the path of a character device below /dev; nullopt if `path` is not such a device.
std::optional<std::pair<dev_t, std::string>> deviceAt(const HostRoot& host, const std::string& path) {
  const auto node = host.open(path);
  struct stat is {};
  if (!node || ::fstat(node.get(), &is) != 0 || !S_ISCHR(is.st_mode)) return std::nullopt;
  const auto name = host.nameOf(node);
  if (name.compare(0, kDev.size(), kDev) != 0) return std::nullopt;
  return std::pair(is.st_rdev, name);
}

std::optional<unsigned> uvmMajor(const std::string& devices) {
  std::ifstream in(devices);
  for (std::string line; std::getline(in, line) && line != "Block devices:";) {
    unsigned number = 0;
    char name[65] = {};
    if (std::sscanf(line.c_str(), "%u %64s", &number, name) == 2 &&  // NOLINT(cert-err34-c)
        name == std::string_view("nvidia-uvm") && number > 0 && number <= kMaxMajor)
      return number;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> linkDevices(const std::string& hostRoot, const std::vector<core::DeviceNode>& nodes) {
  std::vector<std::string> missing;
  const HostRoot host(hostRoot);
  base::UniqueFd links;
  for (const auto& node : nodes) {
    const auto device = deviceAt(host, node.hostPath.empty() ? node.path : node.hostPath);
    if (!device) continue;
    const auto& [number, name] = *device;
    const std::string link = std::to_string(major(number)) + ":" + std::to_string(minor(number));
    if (!links) {
      if (const auto dev = folder(host, "/dev"); dev) ::mkdirat(dev.get(), "char", 0755);
      links = folder(host, "/dev/char");
    }
    // The link's target "../<name>" is in /dev only if /dev/char is not a symlink.
    const bool straight = links && host.nameOf(links) == "/dev/char";
    if (!straight) errno = links ? ELOOP : errno;
    if (!straight ||
        (::symlinkat(("../" + name.substr(kDev.size())).c_str(), links.get(), link.c_str()) != 0 && errno != EEXIST))
      missing.push_back(failed(link));
  }
  return missing;
}

std::vector<std::string> makeUvmNodes(const std::string& hostRoot, const std::string& devices, const MakeNode& make) {
  const HostRoot host(hostRoot);
  if (!deviceAt(host, "/dev/nvidiactl")) return {};
  std::vector<std::string> missing;
  unsigned minor = 0;
  for (const char* name : {"nvidia-uvm", "nvidia-uvm-tools"}) {
    const unsigned number = minor++;
    if (host.open(std::string(kDev) + name, O_PATH | O_NOFOLLOW)) continue;
    const auto major = uvmMajor(devices);
    if (!major) return {};
    const auto dev = folder(host, "/dev");
    // mknod applies the umask, so fchmodat() sets the mode.
    const bool made =
        dev && (make(dev.get(), name, S_IFCHR | kForAll, makedev(*major, number)) == 0 || errno == EEXIST);
    if (!made || ::fchmodat(dev.get(), name, kForAll, 0) != 0) missing.push_back(failed(name));
  }
  return missing;
}

}  // namespace egpu::agent
