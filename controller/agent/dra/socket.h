// Listening Unix socket in a folder that other processes may change or delete.
#pragma once

#include <sys/types.h>

#include <string>

#include "controller/base/status.h"
#include "controller/base/subprocess.h"

namespace egpu::agent::dra {

/// The file belongs to the last process that listens: a starting agent takes it over from a terminating one. Not
/// thread-safe.
class Socket {
 public:
  explicit Socket(std::string path) : path_(std::move(path)) {}
  ~Socket() { close(); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// Returns Code::invalid for a path that can't be a socket's: too long, or not absolute.
  base::Status check() const;
  /// Listens, non-blocking, with mode 0600 from the beginning. Replaces an existing file. Returns Code::unavailable
  /// with the reason, such as a missing folder.
  base::Status open();
  /// True if the file exists and is the one that open() created.
  bool ours() const;
  /// True if another process owns the file and accepts connections on it.
  bool taken() const;
  /// Returns a new connection, non-blocking and close-on-exec, which the caller must close; -1 if there is none.
  int accept() const;
  /// Closes the socket, and removes the file if it is this socket's. Idempotent.
  void close();

  int fd() const { return fd_.get(); }  ///< -1: not open
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  base::UniqueFd fd_;
  dev_t device_ = 0;  ///< device and inode of the file
  ino_t inode_ = 0;
};

}  // namespace egpu::agent::dra
