#include "controller/agent/prepare/staged.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "controller/agent/cdi/folder.h"
#include "controller/base/log.h"
#include "controller/base/subprocess.h"

namespace egpu::agent {

namespace {

namespace fs = std::filesystem;
using base::Code;
using base::Status;
using base::UniqueFd;
namespace log = base::log;

constexpr int kDeepest = 2;            // maximum folders between the state folder and a name
constexpr std::size_t kAtOnce = 1024;  // maximum names of a folder in memory
constexpr std::size_t kUidLength = 36;
constexpr const char* kLeft = ".left-";

/// Returns true for a uid in the API server's format: 8-4-4-4-12.
bool isDeviceUid(const std::string& name) {
  return name.size() == kUidLength && cdi::isUid(name) && name[8] == '-' && name[13] == '-' && name[18] == '-' &&
         name[23] == '-';
}

UniqueFd folderAt(int parent, const std::string& name, int flags = O_NOFOLLOW) {
  return UniqueFd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags));
}

using OpenDir = std::unique_ptr<DIR, int (*)(DIR*)>;

OpenDir opened(const UniqueFd& folder) {
  const int again = ::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return {again < 0 ? nullptr : ::fdopendir(again), ::closedir};
}

/// Walks the plugins' state folder without following symlinks. A folder that is too large or unreadable hides only its
/// own names, except that Bounds::inAll ends the search.
class Walk {
 public:
  /// Called for each path named by a device's uid, or by the uid and ".left-…" (`left`). Returns false if it can't take
  /// more paths.
  using Take = std::function<bool(const fs::path& path, const std::string& uid, bool left)>;
  Walk(const Bounds& bounds, Take take) : bounds_(bounds), take_(std::move(take)) {}
  void through(const std::string& folder) {
    if (const auto top = folderAt(AT_FDCWD, folder, 0))
      in(top, folder, 0);
    else
      missed(folder, errno);
    if (!missed_.empty())
      log::warn("not all files that plugins left can be found; the others stay on the disk", {{"why", missed_}});
  }

 private:
  void in(const UniqueFd& folder, const fs::path& path, int depth) {
    const OpenDir dir = opened(folder);
    if (!dir) return missed(path, errno);
    std::size_t here = 0;
    while (const dirent* entry = next(dir)) {
      if (++here > bounds_.inOne || ++seen_ > bounds_.inAll) return missed(path, "it has too many entries");
      take(folder, path, *entry, depth);
    }
    missed(path, errno);
  }

  /// Returns the next entry, or null: at the end errno is 0.
  static const dirent* next(const OpenDir& dir) {
    errno = 0;
    return ::readdir(dir.get());  // NOLINT(concurrency-mt-unsafe): this thread's alone
  }

  void take(const UniqueFd& folder, const fs::path& path, const dirent& entry, int depth) {
    const std::string name = entry.d_name;
    if (name == "." || name == "..") return;
    const auto uid = name.substr(0, kUidLength), rest = name.substr(uid.size());
    const bool left = rest.rfind(kLeft, 0) == 0;
    if (isDeviceUid(uid) && (rest.empty() || left)) {
      if (!take_(path / name, uid, left)) missed(path, "it has too many entries of devices");
    } else if (depth < kDeepest && (entry.d_type == DT_DIR || entry.d_type == DT_UNKNOWN)) {
      if (const auto below = folderAt(folder.get(), name))
        in(below, path / name, depth + 1);
      else
        missed(path / name, errno);
    }
  }

  void missed(const fs::path& path, const std::string& why) {
    if (missed_.empty()) missed_ = path.string() + ": " + why;
  }
  /// A path that is gone, inaccessible or no folder contains nothing to find.
  void missed(const fs::path& path, int error) {
    for (const int none : {0, ENOENT, EACCES, ENOTDIR, ELOOP})
      if (error == none) return;
    missed(path, std::generic_category().message(error));
  }

  const Bounds bounds_;
  const Take take_;
  std::size_t seen_ = 0;
  std::string missed_;  ///< first folder that was not read completely, and the reason
};

/// Time limit of one removal. A container may add files meanwhile, so that a removal without a limit might never end.
class Limit {
 public:
  Limit(const std::stop_token& stop, std::chrono::milliseconds max)
      : stop_(stop), until_(std::chrono::steady_clock::now() + max) {}
  /// Returns OK while the limit is not reached.
  Status reached() const {
    if (stop_.stop_requested()) return {Code::cancelled, "stopped"};
    if (std::chrono::steady_clock::now() < until_) return Status::okay();
    return {Code::deadline, "removing all files takes longer than one call may last"};
  }

 private:
  const std::stop_token& stop_;
  const std::chrono::steady_clock::time_point until_;
};

/// Returns up to kAtOnce names in the folder; a container may have created millions.
std::vector<std::string> namesIn(const UniqueFd& folder) {
  std::vector<std::string> out;
  const OpenDir dir = opened(folder);
  if (!dir) return out;
  while (const dirent* entry = ::readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): this thread's alone
    const std::string name = entry->d_name;
    if (name != "." && name != "..") out.push_back(name);
    if (out.size() == kAtOnce) break;
  }
  return out;
}

/// Removes a file, symlink or empty folder. Otherwise returns false, with ENOTEMPTY for a folder to be emptied first. A
/// mount point fails with EBUSY.
bool removed(const UniqueFd& folder, const std::string& name) {
  if (::unlinkat(folder.get(), name.c_str(), 0) == 0 || errno == ENOENT) return true;
  return errno == EISDIR && ::unlinkat(folder.get(), name.c_str(), AT_REMOVEDIR) == 0;
}

/// Empties a folder of unbounded depth, by moving nested subfolders up into the folder itself.
class Emptied {
 public:
  Emptied(UniqueFd top, const Limit& limit) : top_(std::move(top)), limit_(limit) {}

  /// Returns false if an entry remains, with the reason in errno, or if the limit is reached.
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
  /// Calls `remove` for all names until the folder is empty, or a pass changes nothing.
  template <class Remove>
  bool each(const UniqueFd& folder, const Remove& remove) {
    for (bool changed = true; changed && limit_.reached().ok();) {
      const auto names = namesIn(folder);
      if (names.empty()) return true;
      changed = false;
      for (const auto& name : names) changed = remove(name) || changed;
    }
    return false;
  }

  /// If the new name exists, tries the next number.
  bool movedUp(const UniqueFd& from, const std::string& name) {
    while (::renameat(from.get(), name.c_str(), top_.get(), std::to_string(next_++).c_str()) != 0)
      if ((errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) || !limit_.reached().ok()) return false;
    return true;
  }

  UniqueFd top_;
  const Limit& limit_;
  std::uint64_t next_ = 0;
};

/// Opens the parent of `path`, which is below `folder`, without following symlinks: the owners are not trusted.
UniqueFd parentOf(const std::string& folder, const fs::path& path) {
  auto at = folderAt(AT_FDCWD, folder, 0);
  for (const auto& part : path.lexically_relative(folder).parent_path())
    if (at) at = folderAt(at.get(), part.string());
  return at;
}

}  // namespace

std::set<std::string> stagedIn(const std::string& stateFolder, const Bounds& bounds) {
  std::set<std::string> out;
  Walk walk(bounds, [&](const fs::path&, const std::string& uid, bool left) {
    if (left || out.count(uid) > 0) return true;
    return out.size() < bounds.ofDevices && out.insert(uid).second;
  });
  walk.through(stateFolder);
  return out;
}

Status removeLeft(const std::string& stateFolder, const std::string& uid, const std::stop_token& stop,
                  std::chrono::milliseconds max) {
  const Limit limit(stop, max);
  const Bounds bounds;
  std::vector<fs::path> all;
  Walk walk(bounds, [&](const fs::path& path, const std::string& its, bool left) {
    if (!left || (!uid.empty() && its != uid)) return true;
    if (all.size() == bounds.ofDevices) return false;
    all.push_back(path);
    return true;
  });
  walk.through(stateFolder);
  Status first;
  for (const auto& path : all) {
    const auto name = path.filename().string();
    const auto parent = parentOf(stateFolder, path);
    if (removed(parent, name)) continue;
    if (errno == ENOTEMPTY)
      if (auto top = folderAt(parent.get(), name); top && Emptied(std::move(top), limit).run() && removed(parent, name))
        continue;
    const auto why = std::generic_category().message(errno);
    if (auto s = limit.reached(); !s.ok()) return {s.code(), path.string() + ": " + s.message()};
    if (first.ok()) first = {Code::unavailable, "cannot remove all of " + path.string() + ": " + why};
  }
  return first;
}

}  // namespace egpu::agent
