// Access to the host's files below a root folder: "/", or "/host" in a container. No symlink leads out of the root.
#pragma once

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <string>

#include "controller/base/subprocess.h"

namespace egpu::agent {

class HostRoot {
 public:
  explicit HostRoot(const std::string& root)
      : at_(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), above_(name(at_.get())) {}

  /// Opens a path of the host, resolving symlinks as on the host; returns a null descriptor if that fails. `flags`: of
  /// open(2); `resolve`: of openat2(2).
  base::UniqueFd open(const std::string& path, uint64_t flags = O_PATH, uint64_t resolve = 0) const {
    struct open_how how {};
    how.flags = flags | O_CLOEXEC;
    how.resolve = RESOLVE_IN_ROOT | resolve;
    return base::UniqueFd(static_cast<int>(::syscall(SYS_openat2, at_.get(), path.c_str(), &how, sizeof how)));
  }
  /// Returns the path of an open file on the host.
  std::string nameOf(const base::UniqueFd& file) const {
    const std::string whole = name(file.get());
    return above_ == "/" ? whole : whole.substr(std::min(above_.size(), whole.size()));
  }

 private:
  static std::string name(int fd) {
    char name[PATH_MAX];
    const auto n = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name);
    return n > 0 ? std::string(name, static_cast<std::size_t>(n)) : std::string();
  }

  const base::UniqueFd at_;
  const std::string above_;
};

}  // namespace egpu::agent
