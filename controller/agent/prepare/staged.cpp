#include "controller/agent/prepare/staged.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>
#include <vector>

#include "controller/agent/cdi/folder.h"
#include "controller/base/subprocess.h"

namespace egpu::agent {

namespace {

namespace fs = std::filesystem;
using base::Code;
using base::Status;
using base::UniqueFd;

constexpr int kDeepest = 2;  // folders that stand above it, in the state folder
constexpr std::size_t kMostFound = 256, kMostSeen = 10'000;
constexpr std::size_t kAtOnce = 1024;  // names of a folder in memory
constexpr std::size_t kUidLength = 36;
constexpr const char* kLeft = ".left-";

/// 8-4-4-4-12, as the API server makes them.
bool isDeviceUid(const std::string& name) {
  return name.size() == kUidLength && cdi::isUid(name) && name[8] == '-' && name[13] == '-' && name[18] == '-' &&
         name[23] == '-';
}

/// Calls `take` with each path that is called after a device, and what follows its uid there: nothing, or ".left-…".
void eachOfDevices(const std::string& folder,
                   const std::function<void(const fs::path& path, const std::string& uid, bool left)>& take) {
  std::error_code error;
  std::size_t seen = 0;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator() && ++seen <= kMostSeen; at.increment(error)) {
    const auto name = at->path().filename().string();
    const auto uid = name.substr(0, kUidLength), rest = name.substr(uid.size());
    const bool left = rest.rfind(kLeft, 0) == 0, known = isDeviceUid(uid) && (rest.empty() || left);
    if (known) take(at->path(), uid, left);
    if (known || at.depth() >= kDeepest) at.disable_recursion_pending();
  }
}

UniqueFd folderAt(int parent, const std::string& name, int flags = O_NOFOLLOW) {
  return UniqueFd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags));
}

/// The first names in the folder; a container may have made millions.
std::vector<std::string> namesIn(const UniqueFd& folder) {
  std::vector<std::string> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(
      ::fdopendir(::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), ::closedir);
  if (!dir) return out;
  while (const dirent* entry = ::readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): this thread's alone
    const std::string name = entry->d_name;
    if (name != "." && name != "..") out.push_back(name);
    if (out.size() == kAtOnce) break;
  }
  return out;
}

/// A file, link or empty folder. Else false, with ENOTEMPTY for a folder that is to be emptied first: one with something
/// mounted on it is EBUSY, whatever it has.
bool removed(const UniqueFd& folder, const std::string& name) {
  if (::unlinkat(folder.get(), name.c_str(), 0) == 0 || errno == ENOENT) return true;
  return errno == EISDIR && ::unlinkat(folder.get(), name.c_str(), AT_REMOVEDIR) == 0;
}

/// Empties a folder whose depth nobody has bounded: folders in folders are moved up to its own, one after the other.
class Emptied {
 public:
  Emptied(UniqueFd top, const std::stop_token& stop) : top_(std::move(top)), stop_(stop) {}

  /// False: something stays, errno says why; or it was stopped.
  bool run() {
    return each(top_, [&](const std::string& name) {
      if (removed(top_, name)) return true;
      if (errno != ENOTEMPTY) return false;
      const auto below = folderAt(top_.get(), name);
      if (!below) return false;
      bool changed = false;
      each(below, [&](const std::string& inner) {
        const bool gone = removed(below, inner) || (errno == ENOTEMPTY && movedUp(below, inner));
        changed = changed || gone;
        return gone;
      });
      return removed(top_, name) || changed;
    });
  }

 private:
  /// Until the folder is empty, or a round of names changes nothing.
  template <class Remove>
  bool each(const UniqueFd& folder, const Remove& remove) {
    for (bool changed = true; changed && !stop_.stop_requested();) {
      const auto names = namesIn(folder);
      if (names.empty()) return true;
      changed = false;
      for (const auto& name : names) changed = remove(name) || changed;
    }
    return false;
  }

  /// A name that is taken is gone sooner or later: the next one will do.
  bool movedUp(const UniqueFd& from, const std::string& name) {
    while (::renameat(from.get(), name.c_str(), top_.get(), std::to_string(next_++).c_str()) != 0)
      if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) return false;
    return true;
  }

  UniqueFd top_;
  const std::stop_token& stop_;
  std::uint64_t next_ = 0;
};

/// The folder that a path below `folder` is in, reached over no link: its owners are not trusted.
UniqueFd parentOf(const std::string& folder, const fs::path& path) {
  auto at = folderAt(AT_FDCWD, folder, 0);
  for (const auto& part : path.lexically_relative(folder).parent_path())
    if (at) at = folderAt(at.get(), part.string());
  return at;
}

}  // namespace

std::set<std::string> stagedIn(const std::string& stateFolder) {
  std::set<std::string> out;
  eachOfDevices(stateFolder, [&](const fs::path&, const std::string& uid, bool left) {
    if (!left && out.size() < kMostFound) out.insert(uid);
  });
  return out;
}

Status removeLeft(const std::string& stateFolder, const std::string& uid, const std::stop_token& stop) {
  std::vector<fs::path> all;
  eachOfDevices(stateFolder, [&](const fs::path& path, const std::string& its, bool left) {
    if (left && (uid.empty() || its == uid) && all.size() < kMostFound) all.push_back(path);
  });
  Status first;
  for (const auto& path : all) {
    const auto name = path.filename().string();
    const auto parent = parentOf(stateFolder, path);
    if (removed(parent, name)) continue;
    if (errno == ENOTEMPTY)
      if (auto top = folderAt(parent.get(), name); top && Emptied(std::move(top), stop).run() && removed(parent, name))
        continue;
    const auto why = std::generic_category().message(errno);
    if (stop.stop_requested()) return {Code::cancelled, "stopped"};
    if (first.ok()) first = {Code::unavailable, "cannot remove all of " + path.string() + ": " + why};
  }
  return first;
}

}  // namespace egpu::agent
