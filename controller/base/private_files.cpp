#include "controller/base/private_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include "controller/base/ids.h"

namespace egpu::base {

namespace {

constexpr mode_t kFile = 0600, kFolder = 0700, kOthers = 0077;
constexpr int kMake = O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

Status failed(const std::string& path, int error) {
  if (error == ELOOP) return {Code::unavailable, path + ": is a symbolic link, which is not followed"};
  return {error == ENOENT ? Code::notFound : Code::unavailable, path + ": " + std::generic_category().message(error)};
}

/// Whether the file is one that nobody else can put something into behind our back.
Status ours(const std::string& path, const struct stat& is) {
  if (!S_ISREG(is.st_mode)) return {Code::unavailable, path + ": is no regular file"};
  const uid_t self = ::geteuid();
  if (self != 0 && is.st_uid != self) return {Code::unavailable, path + ": belongs to another user"};
  return Status::okay();
}

/// An existing file, opened and judged.
Result<UniqueFd> openOurs(const std::string& path, int flags, struct stat& is) {
  UniqueFd fd(::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));  // NONBLOCK: it may be a pipe
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

}  // namespace

Result<UniqueFd> openPrivateFile(const std::string& path) {
  UniqueFd made(::open(path.c_str(), O_RDWR | kMake, kFile));
  if (made) return made;
  if (errno != EEXIST) return failed(path, errno);
  struct stat is {};
  auto fd = openOurs(path, O_RDWR, is);
  if (!fd) return fd;
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

Status writePrivateFile(const std::string& path, const std::string& text) {
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
  if (written.ok() && std::rename(beside.c_str(), path.c_str()) != 0) written = failed(path, errno);
  if (!written.ok()) ::unlink(beside.c_str());
  return written;
}

Status makePrivateFolder(const std::string& path, const std::string& own) {
  namespace fs = std::filesystem;
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  std::error_code error;
  const fs::path folder(name), above = folder.parent_path();
  if (!above.empty()) fs::create_directories(above, error);
  if (error) return {Code::unavailable, name + ": " + error.message()};
  if (::mkdir(name.c_str(), kFolder) == 0) return Status::okay();
  if (errno != EEXIST) return failed(name, errno);
  struct stat is {};
  if (::stat(name.c_str(), &is) != 0) return failed(name, errno);
  if (!S_ISDIR(is.st_mode)) return failed(name, ENOTDIR);
  if ((is.st_mode & kOthers) == 0) return Status::okay();
  const bool mine = fs::exists(folder / own, error) || (!error && fs::is_empty(folder, error));
  if (error || !mine || (is.st_mode & S_ISVTX) != 0) return Status::okay();
  return ::chmod(name.c_str(), kFolder) == 0 ? Status::okay() : failed(name, errno);
}

}  // namespace egpu::base
