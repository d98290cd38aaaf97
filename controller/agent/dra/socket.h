// A listening Unix socket in a folder that somebody else may delete.
#pragma once

#include <sys/types.h>

#include <string>

#include "controller/base/status.h"
#include "controller/base/subprocess.h"

namespace egpu::agent::dra {

/// Its file belongs to whoever listens last: an agent that comes takes it from one that goes. Of one thread.
class Socket {
 public:
  explicit Socket(std::string path) : path_(std::move(path)) {}
  ~Socket() { close(); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// Code::invalid for a path that no socket can have (its length, its folder isn't absolute).
  base::Status check() const;
  /// Listens, non-blocking, mode 0600 from the first moment on, in place of whatever a process that died has left.
  /// Code::unavailable with the reason, such as that the folder is missing.
  base::Status open();
  /// Whether the file is there and ours.
  bool ours() const;
  /// Whether the file is another process's, which answers there.
  bool taken() const;
  /// A new connection, non-blocking and close-on-exec, the caller's to close; -1: none.
  int accept() const;
  /// Closes, and removes the file if it is ours. Idempotent.
  void close();

  int fd() const { return fd_.get(); }  ///< -1: not open
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  base::UniqueFd fd_;
  dev_t device_ = 0;  ///< of the file
  ino_t inode_ = 0;
};

}  // namespace egpu::agent::dra
