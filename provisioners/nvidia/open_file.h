// A file descriptor of a plugin.
#pragma once

#include <unistd.h>

namespace egpu::nvidia {

/// Closes its descriptor at the end of the scope.
class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  const int fd_;
};

}  // namespace egpu::nvidia
