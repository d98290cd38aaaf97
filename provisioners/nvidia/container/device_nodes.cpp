#include "provisioners/nvidia/container/device_nodes.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include "provisioners/nvidia/container/host_files.h"
#include "provisioners/nvidia/system.h"

namespace egpu::nvidia {
namespace {

constexpr mode_t kForAll = 0666;
constexpr unsigned kMostMajor = 4095;

bool isThere(const std::string& path) {
  struct stat info {};
  return lstat(seen(path).c_str(), &info) == 0;
}

/// The numbers of character devices by their driver's name: "195 nvidia".
std::map<std::string, unsigned> majors() {
  std::map<std::string, unsigned> out;
  std::ifstream in(rooted("/proc/devices"));
  for (std::string line; std::getline(in, line) && line != "Block devices:";) {
    unsigned number = 0;
    char name[65] = {};
    if (std::sscanf(line.c_str(), "%u %64s", &number, name) == 2 && number <= kMostMajor)  // NOLINT(cert-err34-c)
      out[name] = number;
  }
  return out;
}

/// Unified memory's, which CUDA does not start without: as nvidia-modprobe -c 0 -u.
sdk::Status makeUvm(const MakeNode& make, bool& made) {
  const auto known = majors();
  if (known.count("nvidia") + known.count("nvidia-frontend") == 0) return sdk::ok();  // none of the driver's are told
  const auto uvm = known.find("nvidia-uvm");
  if (uvm == known.end())
    return sdk::unavailable("the kernel module nvidia-uvm is not loaded, CUDA needs it: modprobe nvidia-uvm");
  unsigned minor = 0;
  for (const std::string path : {"/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}) {
    const std::string at = seen(path);
    if (!isThere(path)) {
      if (make(at.c_str(), S_IFCHR | kForAll, makedev(uvm->second, minor)) == 0) {
        chmod(at.c_str(), kForAll);  // mknod heeds the umask
        made = true;
      } else if (errno != EEXIST && minor == 0) {
        return sdk::unavailable("cannot make " + path + " (" + std::strerror(errno) +
                                "), CUDA needs it: nvidia-modprobe -c 0 -u");
      }
    }
    ++minor;
  }
  return sdk::ok();
}

/// systemd finds a container's devices by these names when it reloads, and takes away those that it doesn't find.
std::string linkNode(const std::string& path, bool& made) {
  struct stat info {};
  if (stat(seen(path).c_str(), &info) != 0 || !S_ISCHR(info.st_mode)) return {};
  const std::string link =
      "/dev/char/" + std::to_string(major(info.st_rdev)) + ":" + std::to_string(minor(info.st_rdev));
  if (isThere(link)) return {};
  mkdir(seen("/dev/char").c_str(), 0755);
  if (symlink((".." + path.substr(std::strlen("/dev"))).c_str(), seen(link).c_str()) == 0) return made = true, "";
  return errno == EEXIST ? std::string() : link + " (" + std::strerror(errno) + ")";
}

}  // namespace

std::vector<std::string> deviceNodes(const std::vector<int64_t>& minors) {
  std::vector<std::string> out;
  out.reserve(minors.size() + 4);
  for (const int64_t minor : minors) out.push_back("/dev/nvidia" + std::to_string(minor));
  out.emplace_back("/dev/nvidiactl");
  for (const char* path : {"/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"})
    if (isThere(path)) out.emplace_back(path);
  return out;
}

sdk::Status stageNodes(const std::vector<int64_t>& minors, const MakeNode& make) {
  bool made = false;
  if (sdk::Status status = makeUvm(make, made); status.code != EGPU_OK) return status;
  std::string missing;
  for (const std::string& path : deviceNodes(minors))
    if (const std::string link = linkNode(path, made); !link.empty()) missing += (missing.empty() ? "" : ", ") + link;
  sdk::Status status = made ? sdk::ok() : sdk::noChange();
  if (!missing.empty())
    status.message = "a container's access may end when systemd reloads, cannot make " + missing +
                     ": nvidia-ctk system create-dev-char-symlinks --create-all";
  return status;
}

}  // namespace egpu::nvidia
