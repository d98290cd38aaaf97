#include "controller/base/private_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include "controller/base/ids.h"

namespace egpu::base {

namespace {

constexpr int kMaxLinks = 8;
constexpr mode_t kFile = 0600, kFolder = 0700, kOthers = 0077;
constexpr int kMake = O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

Status failed(const std::string& path, int error) {
  if (error == ELOOP) return {Code::unavailable, path + ": is a symbolic link, which is not followed"};
  return {error == ENOENT ? Code::notFound : Code::unavailable, path + ": " + std::generic_category().message(error)};
}

/// Returns the path without trailing slashes. With one, open() would follow a symbolic link.
std::string withoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

/// True if the owner is this user or root. Root can change any file regardless of its mode, so trusting root's files
/// adds no risk.
bool trusted(uid_t owner) { return owner == ::geteuid() || owner == 0; }

Status notRegular(const std::string& path) { return {Code::unavailable, path + ": is no regular file"}; }

Status notOurs(const std::string& path) { return {Code::unavailable, path + ": belongs to another user"}; }

/// Succeeds if this is a regular file that belongs to this user, so that no other user can write to it. Root accepts
/// files of all users.
Status ours(const std::string& path, const struct stat& is) {
  if (!S_ISREG(is.st_mode)) return notRegular(path);
  const uid_t self = ::geteuid();
  if (self != 0 && is.st_uid != self) return notOurs(path);
  return Status::okay();
}

/// Opens an existing file, stores its status in `is`, and checks it with ours().
Result<UniqueFd> openOurs(const std::string& path, int flags, struct stat& is) {
  UniqueFd fd(::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));  // NONBLOCK, as it may be a pipe
  if (!fd) return failed(path, errno);
  if (::fstat(fd.get(), &is) != 0) return failed(path, errno);
  if (auto s = ours(path, is); !s.ok()) return s;
  return fd;
}

Status writeAll(int fd, const std::string& path, const std::string& text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto n = ::write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(path, n < 0 ? errno : EIO);
    at += static_cast<std::size_t>(n);
  }
  return ::fsync(fd) == 0 ? Status::okay() : failed(path, errno);
}

/// Succeeds if `path` does not exist or is a regular file or a link to one. Devices, pipes and folders have another
/// purpose and must not be replaced.
Status replaceable(const std::string& path) {
  struct stat is {};
  if (::stat(path.c_str(), &is) != 0 || S_ISREG(is.st_mode)) return Status::okay();
  return notRegular(path);
}

/// Opens the folder. Follows symbolic links of this user and of root one by one, and refuses links of other users,
/// because their owners can redirect them.
Result<UniqueFd> openFolder(const std::string& name) {
  std::filesystem::path at(name);
  for (int links = 0; links <= kMaxLinks; ++links) {
    const UniqueFd found(::open(at.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat is {};
    if (!found || ::fstat(found.get(), &is) != 0) return failed(name, errno);
    if (!S_ISLNK(is.st_mode)) {
      UniqueFd folder(::openat(found.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (!folder) return failed(name, errno);
      return folder;
    }
    if (!trusted(is.st_uid)) return Status(Code::unavailable, name + ": is a symbolic link of another user");
    char target[PATH_MAX];
    const auto n = ::readlinkat(found.get(), "", target, sizeof target);
    if (n <= 0) return failed(name, n < 0 ? errno : ENOENT);
    at = withoutSlashes((at.parent_path() / std::string(target, static_cast<std::size_t>(n))).string());
  }
  return failed(name, ELOOP);
}

/// Fails if other users can write to the folder, because they could rename and remove its entries. A sticky folder,
/// such as root's for plugins, may be writable by its group: there users can rename and remove only their own entries.
Status closedToWriters(const std::string& name, mode_t mode) {
  const bool sticky = (mode & S_ISVTX) != 0;
  if ((mode & (sticky ? S_IWOTH : S_IWGRP | S_IWOTH)) == 0) return Status::okay();
  char octal[8];
  std::snprintf(octal, sizeof octal, "%04o", mode & 07777U);
  const std::string found = name + ": can be written to by others (mode " + octal + "): ";
  return {Code::unavailable, found + (sticky ? "use a folder in it, or another one" : "use chmod go-w " + name)};
}

}  // namespace

Result<UniqueFd> openPrivateFile(const std::string& path) {
  UniqueFd made(::open(path.c_str(), O_RDWR | kMake, kFile));
  if (made) return made;
  if (errno != EEXIST) return failed(path, errno);
  struct stat is {};
  auto fd = openOurs(path, O_RDWR, is);
  if (!fd) return fd;
  if (is.st_uid != ::geteuid()) return notOurs(path);  // its owner could write to it at any time
  if ((is.st_mode & kOthers) != 0 && ::fchmod(fd->get(), kFile) != 0) return failed(path, errno);
  return fd;
}

Result<std::string> readPrivateFile(const std::string& path) {
  struct stat is {};
  const auto fd = openOurs(path, O_RDONLY, is);
  if (!fd) return fd.status();
  std::string text;
  char piece[65536];
  for (;;) {
    const auto n = ::read(fd->get(), piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(path, errno);
    if (n == 0) return text;
    text.append(piece, static_cast<std::size_t>(n));
  }
}

Result<std::string> writeBeside(const std::string& path, const std::string& text) {
  if (auto s = replaceable(path); !s.ok()) return s;
  Random random;
  std::string beside;
  UniqueFd fd;
  for (int attempt = 0; attempt < 100 && !fd; ++attempt) {
    beside = path + "." + random.suffix(8) + "~";
    fd = UniqueFd(::open(beside.c_str(), O_WRONLY | kMake, kFile));
    if (!fd && errno != EEXIST) return failed(path, errno);
  }
  if (!fd) return failed(path, EEXIST);
  Status written = writeAll(fd.get(), path, text);
  struct stat before {};
  if (written.ok() && ::lstat(path.c_str(), &before) == 0 && S_ISREG(before.st_mode) && before.st_uid != ::geteuid() &&
      ::fchown(fd.get(), before.st_uid, before.st_gid) != 0)
    written = failed(path, errno);
  if (written.ok()) return beside;
  ::unlink(beside.c_str());
  return written;
}

Status writePrivateFile(const std::string& path, const std::string& text) {
  const auto beside = writeBeside(path, text);
  if (!beside) return beside.status();
  if (std::rename(beside->c_str(), path.c_str()) == 0) return Status::okay();
  const int error = errno;
  ::unlink(beside->c_str());
  return failed(path, error);
}

Status makePrivateFolder(const std::string& path, const std::string& own) {
  namespace fs = std::filesystem;
  const std::string name = withoutSlashes(path);
  std::error_code error;
  const fs::path above = fs::path(name).parent_path();
  if (!above.empty()) fs::create_directories(above, error);
  if (error) return {Code::unavailable, name + ": " + error.message()};
  if (::mkdir(name.c_str(), kFolder) == 0) return Status::okay();
  if (errno != EEXIST) return failed(name, errno);
  const auto folder = openFolder(name);
  if (!folder) return folder.status();
  struct stat is {
  }, entry{};
  if (::fstat(folder->get(), &is) != 0) return failed(name, errno);
  if (!trusted(is.st_uid)) return notOurs(name);
  if ((is.st_mode & kOthers) == 0) return Status::okay();
  const bool mine = ::fstatat(folder->get(), own.c_str(), &entry, AT_SYMLINK_NOFOLLOW) == 0 ||
                    fs::is_empty("/proc/self/fd/" + std::to_string(folder->get()), error);
  if (error || !mine || (is.st_mode & S_ISVTX) != 0) return closedToWriters(name, is.st_mode);
  return ::fchmod(folder->get(), kFolder) == 0 ? Status::okay() : failed(name, errno);
}

}  // namespace egpu::base
