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
#include "controller/base/remove_tree.h"
#include "controller/base/subprocess.h"

namespace egpu::agent {

namespace {

namespace fs = std::filesystem;
using base::Code;
using base::Status;
using base::UniqueFd;
namespace log = base::log;

constexpr int kDeepest = 2;  // maximum folders between the state folder and a name
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

/// Time limit of a removal. A container may add files meanwhile, so that a removal without a limit might never end.
class Limit {
 public:
  Limit(const std::stop_token& stop, std::chrono::milliseconds max)
      : stop_(stop), until_(std::chrono::steady_clock::now() + max) {}
  /// Returns OK while the limit is not reached.
  Status reached() const {
    if (stop_.stop_requested()) return {Code::cancelled, "stopped"};
    if (left().count() > 0) return Status::okay();
    return {Code::deadline, "removing all files takes longer than one call may last"};
  }
  /// Returns the remaining time; less than 1 ms counts as none.
  std::chrono::milliseconds left() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(until_ - std::chrono::steady_clock::now());
  }

 private:
  const std::stop_token& stop_;
  const std::chrono::steady_clock::time_point until_;
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
  const Limit whole(stop, max);
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
  for (std::size_t i = 0; i < all.size(); ++i) {
    // Each path has an equal part of the remaining time: one that is never empty must not keep all later ones.
    const Limit share(stop, whole.left() / static_cast<int64_t>(all.size() - i));
    const auto s = base::removeTree(parentOf(stateFolder, all[i]), all[i].filename().string(),
                                    [&share] { return share.reached(); });
    if (s.code() == Code::cancelled) return {s.code(), all[i].string() + ": " + s.message()};
    if (s.ok() || (!first.ok() && first.code() == Code::deadline)) continue;
    // A call that continues helps against the deadline only, so that this is the result.
    if (s.code() == Code::deadline)
      first = {s.code(), all[i].string() + ": " + s.message()};
    else if (first.ok())
      first = {Code::unavailable, "cannot remove all of " + all[i].string() + ": " + s.message()};
  }
  return first;
}

}  // namespace egpu::agent
