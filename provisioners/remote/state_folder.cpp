#include "provisioners/remote/state_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "provisioners/nvidia/open_file.h"

namespace egpu::remote {
namespace {

using nvidia::OpenFile;
using sdk::Status;

constexpr const char* kFolder = "remote";
constexpr std::size_t kMaxFile = 1U << 16;
constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

/// Returns $ELASTICGPU_STATE_DIR as of the first call.
const std::string& root() {
  static const std::string folder = [] {
    const char* given = std::getenv("ELASTICGPU_STATE_DIR");  // NOLINT(concurrency-mt-unsafe): nothing sets it here
    return std::string(given != nullptr && *given != 0 ? given : "/var/lib/elasticgpu");
  }();
  return folder;
}

Status failed(const std::string& what) {
  return sdk::unavailable(what + ": " + std::strerror(errno));  // NOLINT(concurrency-mt-unsafe): glibc's is safe
}

/// Opens a folder of this user in the folder `at`. A folder of an older version, which other users can read, is closed
/// to them. Returns -1 and why in `status`; NO_CHANGE: there is no folder.
int openOwn(int at, const char* name, const std::string& path, bool make, Status& status) {
  if (make && ::mkdirat(at, name, 0700) != 0 && errno != EEXIST) return status = failed("cannot create " + path), -1;
  const int fd = ::openat(at, name, kDirectory | O_NOFOLLOW);
  struct stat info {};
  if (fd >= 0 && ::fstat(fd, &info) == 0 && info.st_uid == ::geteuid() && (info.st_mode & 0022) == 0 &&
      ((info.st_mode & 0077) == 0 || ::fchmod(fd, 0700) == 0))
    return fd;
  if (fd < 0 && errno == ENOENT) return status = sdk::noChange(), -1;
  const bool isForeign = fd >= 0 || errno == ELOOP || errno == ENOTDIR || errno == EACCES;
  status = isForeign ? sdk::invalid(path +
                                    " is no folder that only the user of the plugin can write to: another "
                                    "plugin may have created it; remove it")
                     : failed("cannot open " + path);
  if (fd >= 0) ::close(fd);
  return -1;
}

/// Writes and syncs the file.
bool writeAll(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t more = ::write(fd, text.data() + done, text.size() - done);
    if (more <= 0) return false;
    done += static_cast<std::size_t>(more);
  }
  return ::fsync(fd) == 0;
}

}  // namespace

std::string StateFolder::path() const { return root() + "/" + kFolder + (subfolder_.empty() ? "" : "/" + subfolder_); }

int StateFolder::open(bool make, Status& status) const {
  if (make && ::mkdir(root().c_str(), 0755) != 0 && errno != EEXIST) {
    status = failed("cannot create " + root());
    return -1;
  }
  const OpenFile top(::open(root().c_str(), kDirectory));
  if (!top) return status = errno == ENOENT ? sdk::noChange() : failed("cannot open " + root()), -1;
  const int own = openOwn(top.get(), kFolder, root() + "/" + kFolder, make, status);
  if (own < 0 || subfolder_.empty()) return own;
  const OpenFile parent(own);
  return openOwn(parent.get(), subfolder_.c_str(), path(), make, status);
}

Status StateFolder::write(const std::string& name, const std::string& text) const {
  Status status;
  const OpenFile folder(open(true, status));
  if (!folder) return status;
  const std::string draft = name + ".new";
  const OpenFile file(
      ::openat(folder.get(), draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file || !writeAll(file.get(), text) ||
      ::renameat(folder.get(), draft.c_str(), folder.get(), name.c_str()) != 0 || ::fsync(folder.get()) != 0)
    return failed("cannot write " + path() + "/" + name);
  return sdk::ok();
}

Status StateFolder::remove(const std::string& name) const {
  Status status;
  const OpenFile folder(open(false, status));
  if (!folder) return status;
  if (::unlinkat(folder.get(), name.c_str(), 0) == 0) return sdk::ok();
  return errno == ENOENT ? sdk::noChange() : failed("cannot remove " + path() + "/" + name);
}

std::optional<std::string> StateFolder::read(const std::string& name) const {
  Status status;
  const OpenFile folder(open(false, status));
  if (!folder) return std::nullopt;
  const OpenFile file(::openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::string text(kMaxFile, '\0');
  const ssize_t size = file ? ::read(file.get(), text.data(), text.size()) : -1;
  if (size < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(size));
  return text;
}

bool StateFolder::has(const std::string& name) const {
  Status status;
  const OpenFile folder(open(false, status));
  return folder && ::faccessat(folder.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

Status StateFolder::list(std::vector<std::string>& names) const {
  Status status;
  const int fd = open(false, status);
  if (fd < 0) return status.code == EGPU_INVALID ? status : sdk::ok();
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::fdopendir(fd), ::closedir);
  if (!dir) {
    ::close(fd);
    return failed("cannot read " + path());
  }
  while (const dirent* entry = ::readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): its own DIR
    const std::string name = entry->d_name;
    if (entry->d_type != DT_DIR && name.find('.') == std::string::npos) names.push_back(name);
  }
  return sdk::ok();
}

}  // namespace egpu::remote
