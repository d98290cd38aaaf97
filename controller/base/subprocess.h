// Child process that can't outlive its parent. It has its own process group, inherits only the named descriptors, and
// is killed when the parent ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "controller/base/status.h"

namespace egpu::base {

/// Owns a file descriptor and closes it on destruction. -1 = none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// Creates a connected pair of stream sockets, both close-on-exec. The first one is non-blocking.
Result<std::pair<UniqueFd, UniqueFd>> socketPair();

/// A running child process. Movable. The destructor kills and reaps it. Not thread-safe: use from one thread at a time.
class Subprocess {
 public:
  struct Options {
    std::vector<std::string> argv;  ///< argv[0] is the path of the executable
    std::vector<std::string> env;   ///< the whole environment, "NAME=value"
    int channel = -1;               ///< borrowed; becomes descriptor 3 of the child
    int errors = -1;                ///< borrowed; becomes standard error; -1 = standard error goes to output(), too
  };
  /// Forks and executes. Fails if the executable can't be run. Standard input is /dev/null. Standard output goes to
  /// output(), and so does standard error unless Options::errors is set. The kernel kills the child when the *thread*
  /// that called spawn() ends, so call it from a thread that lives as long as the child should.
  static Result<Subprocess> spawn(const Options& options);

  Subprocess(Subprocess&& other) noexcept = default;
  Subprocess& operator=(Subprocess&& other) = delete;
  ~Subprocess();

  pid_t pid() const { return pid_.value; }
  int output() const { return output_.get(); }  ///< non-blocking read end of the child's output
  int exited() const { return pidfd_.get(); }   ///< readable (POLLIN) when the child ends; -1 on kernels without pidfd
  /// Reaps ended descendants in the child's group that the kernel reparented to this process, as it does for the first
  /// process of a container. finish() reaps the child itself.
  void reapOrphans() const;
  /// Waits at most `patience` for the child to end by itself, then kills the whole process group and reaps it. Returns
  /// how the child ended, such as "exited with status 3" or "was killed by signal 11 (Segmentation fault)".
  std::string finish(std::chrono::milliseconds patience);

 private:
  Subprocess(pid_t pid, UniqueFd output, UniqueFd pidfd)
      : pid_(pid), output_(std::move(output)), pidfd_(std::move(pidfd)) {}

  struct Pid {  ///< a move leaves -1 behind, as with UniqueFd
    explicit Pid(pid_t p) : value(p) {}
    Pid(Pid&& other) noexcept : value(std::exchange(other.value, -1)) {}
    pid_t value;
  };
  Pid pid_;
  UniqueFd output_;
  UniqueFd pidfd_;
};

/// Returns the folder of the running executable, or "." if it is unknown.
std::string executableFolder();

}  // namespace egpu::base
