#include "controller/agent/dra/socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace egpu::agent::dra {
namespace {

using base::Code;
using base::Status;

constexpr int kBacklog = 128;

sockaddr_un addressOf(const std::string& path) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  path.copy(out.sun_path, sizeof out.sun_path - 1);
  return out;
}

Status failed(const std::string& path) { return {Code::unavailable, path + ": " + std::strerror(errno)}; }

}  // namespace

Status Socket::check() const {
  if (path_.empty() || path_.front() != '/') return {Code::invalid, "\"" + path_ + "\" is not an absolute path"};
  if (path_.size() >= sizeof(sockaddr_un::sun_path))
    return {Code::invalid, path_ + " is too long for a socket, which takes " +
                               std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " characters"};
  return Status::okay();
}

Status Socket::open() {
  close();
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // bind() gives the file the socket's mode, reduced by the umask.
  if (!fd || ::fchmod(fd.get(), 0600) != 0) return failed(path_);
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) return failed(path_);
  const auto address = addressOf(path_);
  struct stat file {};
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::lstat(path_.c_str(), &file) != 0 || ::listen(fd.get(), kBacklog) != 0)
    return failed(path_);
  device_ = file.st_dev;
  inode_ = file.st_ino;
  fd_ = std::move(fd);
  return Status::okay();
}

bool Socket::ours() const {
  struct stat file {};
  return fd_ && ::lstat(path_.c_str(), &file) == 0 && file.st_dev == device_ && file.st_ino == inode_;
}

bool Socket::taken() const {
  if (ours()) return false;
  const base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto address = addressOf(path_);
  return fd &&
         (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN);
}

int Socket::accept() const { return ::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }

void Socket::close() {
  if (ours()) ::unlink(path_.c_str());
  fd_.reset();
}

}  // namespace egpu::agent::dra
