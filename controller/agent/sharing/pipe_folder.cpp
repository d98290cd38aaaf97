#include "controller/agent/sharing/pipe_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <memory>

namespace egpu::agent::sharing {

namespace {

constexpr int kMaxEntries = 1000, kMaxFolders = 1000;
constexpr int kDepth = 2;  ///< levels of folders; the deepest ones contain the sockets of namespaces

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

void removeFilesAt(int parent, const char* name, int depth, int& foldersLeft) {
  if (foldersLeft-- <= 0) return;
  const int handle = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (handle < 0) return;
  const std::unique_ptr<DIR, CloseFolder> folder(::fdopendir(handle));
  if (!folder) {
    ::close(handle);
    return;
  }
  ::unlinkat(handle, "control", 0);
  for (int i = 0; i < kMaxEntries; ++i) {
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) return;
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    struct stat info {};
    if (::fstatat(handle, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISDIR(info.st_mode))
      ::unlinkat(handle, entry->d_name, 0);
    else if (depth > 0)
      removeFilesAt(handle, entry->d_name, depth - 1, foldersLeft);
  }
}

}  // namespace

void removeFilesIn(const std::string& folder) {
  int foldersLeft = kMaxFolders;
  removeFilesAt(AT_FDCWD, folder.c_str(), kDepth, foldersLeft);
}

}  // namespace egpu::agent::sharing
