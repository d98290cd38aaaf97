#include "controller/base/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace egpu::base {

namespace {

constexpr std::size_t kMaxNamesAtOnce = 1024;  // names of a folder in memory

UniqueFd subfolderOf(const UniqueFd& parent, const std::string& name) {
  return UniqueFd(::openat(parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

/// Returns up to kMaxNamesAtOnce names in the folder; a container may have created millions.
std::vector<std::string> namesIn(const UniqueFd& folder) {
  std::vector<std::string> out;
  const int again = ::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(again < 0 ? nullptr : ::fdopendir(again), ::closedir);
  if (!dir) return out;
  while (const dirent* entry = ::readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): this thread's alone
    const std::string name = entry->d_name;
    if (name != "." && name != "..") out.push_back(name);
    if (out.size() == kMaxNamesAtOnce) break;
  }
  return out;
}

/// Removes a file, symlink or empty folder. Otherwise returns false, with ENOTEMPTY for a folder to be emptied first. A
/// mount point fails with EBUSY.
bool isRemoved(const UniqueFd& folder, const std::string& name) {
  if (::unlinkat(folder.get(), name.c_str(), 0) == 0 || errno == ENOENT) return true;
  return errno == EISDIR && ::unlinkat(folder.get(), name.c_str(), AT_REMOVEDIR) == 0;
}

/// Empties a folder of unbounded depth, by moving nested subfolders up into the folder itself.
class FolderCleaner {
 public:
  FolderCleaner(UniqueFd top, const std::function<Status()>& limit) : top_(std::move(top)), limit_(limit) {}

  /// Returns false if an entry remains, with the reason in errno, or if the limit is reached.
  bool run() {
    return removeEach(top_, [&](const std::string& name) {
      if (isRemoved(top_, name)) return true;
      if (errno != ENOTEMPTY) return false;
      const auto below = subfolderOf(top_, name);
      if (!below) return false;
      bool changed = false;
      removeEach(below, [&](const std::string& inner) {
        const bool gone = isRemoved(below, inner) || (errno == ENOTEMPTY && moveUp(below, inner));
        changed = changed || gone;
        return gone;
      });
      return isRemoved(top_, name) || changed;
    });
  }

 private:
  /// Calls `remove` for all names until the folder is empty, or a pass changes nothing.
  template <class Remove>
  bool removeEach(const UniqueFd& folder, const Remove& remove) {
    for (bool changed = true; changed && limit_().ok();) {
      const auto names = namesIn(folder);
      if (names.empty()) return true;
      changed = false;
      for (const auto& name : names) changed = remove(name) || changed;
    }
    return false;
  }

  /// If the new name exists, tries the next number.
  bool moveUp(const UniqueFd& from, const std::string& name) {
    while (::renameat(from.get(), name.c_str(), top_.get(), std::to_string(next_++).c_str()) != 0)
      if ((errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) || !limit_().ok()) return false;
    return true;
  }

  UniqueFd top_;
  const std::function<Status()>& limit_;
  std::uint64_t next_ = 0;
};

}  // namespace

Status removeTree(const UniqueFd& parent, const std::string& name, const std::function<Status()>& limit) {
  if (isRemoved(parent, name)) return Status::okay();
  if (errno == ENOTEMPTY)
    if (auto top = subfolderOf(parent, name);
        top && FolderCleaner(std::move(top), limit).run() && isRemoved(parent, name))
      return Status::okay();
  const int why = errno;
  if (auto s = limit(); !s.ok()) return s;
  return {Code::unavailable, strerrordesc_np(why)};
}

Status removeTree(const std::string& path, const std::function<Status()>& limit) {
  const auto slash = path.rfind('/');
  const UniqueFd above(::open(path.substr(0, slash).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!above) return errno == ENOENT ? Status::okay() : Status(Code::unavailable, strerrordesc_np(errno));
  return removeTree(above, path.substr(slash + 1), limit);
}

}  // namespace egpu::base
