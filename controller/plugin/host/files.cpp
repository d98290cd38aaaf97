#include "controller/plugin/host/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "controller/base/subprocess.h"

namespace egpu::plugin::host {
namespace {

using base::Status;
using base::UniqueFd;

Status failed(const std::string& what) { return {base::Code::unavailable, what + ": " + strerrordesc_np(errno)}; }

// Landlock as of ABI 6, defined here because the headers may be older than the kernel.
struct RulesetAttributes {
  uint64_t files = 0, network = 0, scoped = 0;
};
constexpr std::size_t attributesSize(long abi) { return abi < 4 ? 8 : abi < 6 ? 16 : 24; }
struct __attribute__((packed)) PathBeneath {
  uint64_t allowed;
  int32_t folder;
};
constexpr uint64_t kExecute = 1u << 0, kWriteFile = 1u << 1, kReadFile = 1u << 2, kReadFolder = 1u << 3,
                   kChangeFolder = 0x1ffu << 4, kRefer = 1u << 13, kTruncate = 1u << 14;
constexpr uint64_t kRead = kExecute | kReadFile | kReadFolder;
constexpr uint64_t kWrite = kWriteFile | kChangeFolder | kRefer | kTruncate;
/// rights that a rule on a file may allow
constexpr uint64_t kOfFiles = kExecute | kReadFile | kWriteFile | kTruncate;
constexpr uint64_t kTcp = 3;     ///< bind and connect
constexpr uint64_t kScopes = 3;  ///< abstract sockets and signals

/// Builds a Landlock ruleset.
class Ruleset {
 public:
  Ruleset(const Files& files, UniqueFd fd, uint64_t handled) : files_(files), fd_(std::move(fd)), handled_(handled) {}
  int fd() const { return fd_.get(); }

  /// Grants `rights` on `path` and everything below, without the hidden paths there.
  void allow(const std::string& path, uint64_t rights) {
    const bool hides = std::any_of(files_.hidden.begin(), files_.hidden.end(),
                                   [&](const auto& hidden) { return within(hidden, path); });
    if (!hides) return add(path, rights);
    if (std::find(files_.hidden.begin(), files_.hidden.end(), path) != files_.hidden.end()) return;
    DIR* folder = opendir(path.c_str());
    if (!folder) return;
    while (const dirent* entry = readdir(folder)) {  // single-threaded here
      const std::string name = entry->d_name;
      // The target of a link has its own rule where it lies.
      if (name != "." && name != ".." && entry->d_type != DT_LNK) allow((path == "/" ? "" : path) + "/" + name, rights);
    }
    closedir(folder);
  }

 private:
  void add(const std::string& path, uint64_t rights) {
    const UniqueFd at(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!at || fstat(at.get(), &info) != 0) return;
    PathBeneath rule{rights & handled_ & (S_ISDIR(info.st_mode) ? ~uint64_t{0} : kOfFiles), at.get()};
    syscall(SYS_landlock_add_rule, fd_.get(), 1, &rule, 0);  // without a rule, access is refused
  }

  const Files& files_;
  UniqueFd fd_;
  const uint64_t handled_;
};

/// Returns the outermost folder above `path` that other users may not traverse; empty if there is none.
std::string barrier(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    struct stat info {};
    std::string folder = path.substr(0, slash);
    if (stat(folder.c_str(), &info) == 0 && (info.st_mode & S_IXOTH) == 0) return folder;
  }
  return {};
}

Status cover(const std::string& path) {
  struct stat info {};
  // inside a folder that is covered already, or does not exist
  if (lstat(path.c_str(), &info) != 0) return Status::okay();
  const bool folder = S_ISDIR(info.st_mode);
  const int result = folder
                         ? mount("none", path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755,size=1m")
                         : mount("/dev/null", path.c_str(), nullptr, MS_BIND, nullptr);
  return result == 0 ? Status::okay() : failed("covering " + path);
}

/// Restores the object behind `from` at its path, inside a folder that is covered now.
Status uncover(const std::string& path, int from) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
    mkdir(path.substr(0, slash).c_str(), 0755);
  struct stat info {};
  if (fstat(from, &info) != 0) return failed(path);
  if (S_ISDIR(info.st_mode)) {
    mkdir(path.c_str(), 0755);
  } else {
    const UniqueFd place(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
  }
  const std::string source = "/proc/self/fd/" + std::to_string(from);
  if (mount(source.c_str(), path.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return failed("keeping " + path);
  return Status::okay();
}

}  // namespace

bool within(const std::string& path, const std::string& folder) {
  if (folder == "/") return true;
  return path.compare(0, folder.size(), folder) == 0 && (path.size() == folder.size() || path[folder.size()] == '/');
}

bool reachable(const Files& files) {
  const auto free = [](const std::string& path) { return barrier(path).empty(); };
  return std::all_of(files.needed.begin(), files.needed.end(), free) &&
         std::all_of(files.writable.begin(), files.writable.end(), free);
}

Status coverHidden(const Files& files) {
  if (unshare(CLONE_NEWNS) != 0) return failed("a mount namespace");
  // Later mounts of the host are visible here, such as the root folder of a driver's container. Mounts do not propagate
  // back.
  if (mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return failed("mounts of its own");
  struct MountPoint {
    std::string path;
    UniqueFd source;  ///< none = covered
  };
  std::vector<MountPoint> places;
  for (const auto& path : files.hidden) places.push_back({path, UniqueFd()});
  for (const auto* paths : {&files.needed, &files.writable})
    for (const auto& path : *paths) {
      UniqueFd fd(open(path.c_str(), O_PATH | O_CLOEXEC));
      if (!fd) continue;
      if (std::string wall = barrier(path); !wall.empty()) places.push_back({std::move(wall), UniqueFd()});
      places.push_back({path, std::move(fd)});
    }
  // From the outside in; for equal paths the hidden one first.
  std::stable_sort(places.begin(), places.end(), [](const MountPoint& a, const MountPoint& b) {
    return std::pair(a.path.size(), bool(a.source)) < std::pair(b.path.size(), bool(b.source));
  });
  std::vector<std::string> covered;
  for (const auto& place : places) {
    const bool inside =
        std::any_of(covered.begin(), covered.end(), [&](const auto& c) { return within(place.path, c); });
    if (place.source) {
      if (!inside) continue;
      if (Status status = uncover(place.path, place.source.get()); !status.ok()) return status;
    } else {
      if (Status status = cover(place.path); !status.ok()) return status;
      covered.push_back(place.path);
    }
  }
  return Status::okay();
}

Status restrictFiles(const Files& files, bool network, bool* restrictsSignals) {
  const long abi = syscall(SYS_landlock_create_ruleset, nullptr, 0, 1);
  if (abi < 1) return failed("Landlock");
  RulesetAttributes attributes;
  attributes.files = kRead | kWriteFile | kChangeFolder;
  if (abi >= 2) attributes.files |= kRefer;
  if (abi >= 3) attributes.files |= kTruncate;
  if (abi >= 4 && !network) attributes.network = kTcp;
  if (abi >= 6) attributes.scoped = kScopes;
  UniqueFd fd(static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, attributesSize(abi), 0)));
  if (!fd) return failed("Landlock");
  Ruleset ruleset(files, std::move(fd), attributes.files);
  ruleset.allow("/", kRead);
  for (const auto& path : files.needed) ruleset.allow(path, kRead);
  for (const auto& path : files.writable) ruleset.allow(path, kRead | kWrite);
  if (syscall(SYS_landlock_restrict_self, ruleset.fd(), 0) != 0) return failed("Landlock");
  if (restrictsSignals) *restrictsSignals = abi >= 6;
  return Status::okay();
}

}  // namespace egpu::plugin::host
