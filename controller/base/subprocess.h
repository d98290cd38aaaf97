// A child process that cannot outlive us: own process group, no inherited descriptors but those named, killed when we
// end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "controller/base/status.h"

namespace egpu::base {

/// A file descriptor that is closed with its owner. -1 = none.
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

/// A connected pair of stream sockets, close-on-exec, the first one non-blocking.
Result<std::pair<UniqueFd, UniqueFd>> socketPair();

/// A running child. Movable; its destructor kills and reaps. One thread at a time.
class Subprocess {
 public:
  struct Options {
    std::vector<std::string> argv;  ///< argv[0] is the path of the executable
    std::vector<std::string> env;   ///< the whole environment, "NAME=value"
    int channel = -1;               ///< borrowed; becomes descriptor 3 of the child
    int errors = -1;                ///< borrowed; becomes standard error, which else goes to output() too
  };
  /// Forks and executes; an executable that cannot be run is an error here. Standard input is /dev/null; standard
  /// output and (unless Options::errors) error go to output(). The kernel kills the child when the *thread* that called
  /// this ends, so call from one that lives as long as the child should.
  static Result<Subprocess> spawn(const Options& options);

  Subprocess(Subprocess&& other) noexcept = default;
  Subprocess& operator=(Subprocess&& other) = delete;
  ~Subprocess();

  pid_t pid() const { return pid_.value; }
  int output() const { return output_.get(); }  ///< non-blocking read end of what the child prints
  int exited() const { return pidfd_.get(); }   ///< poll it for POLLIN; -1 on kernels without pidfd
  /// Reaps descendants in its group that have ended and became this process's, as it happens to the first process of a
  /// container. The child itself is left to finish().
  void reapOrphans() const;
  /// Kills the whole process group if need be and reaps all of it; "exited with status 3", "was killed by signal 11
  /// (Segmentation fault)". Waits at most `patience` for an end of its own accord before it kills.
  std::string finish(std::chrono::milliseconds patience);

 private:
  Subprocess(pid_t pid, UniqueFd output, UniqueFd pidfd)
      : pid_(pid), output_(std::move(output)), pidfd_(std::move(pidfd)) {}

  struct Pid {  ///< moves as a UniqueFd does
    explicit Pid(pid_t p) : value(p) {}
    Pid(Pid&& other) noexcept : value(std::exchange(other.value, -1)) {}
    pid_t value;
  };
  Pid pid_;
  UniqueFd output_;
  UniqueFd pidfd_;
};

/// The folder of the running executable.
std::string executableFolder();

}  // namespace egpu::base
