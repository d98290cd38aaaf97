// Makes SIGTERM and SIGINT events to wait for.
#pragma once

#include <csignal>

namespace egpu::cmd {

/// Blocks SIGTERM, SIGINT, SIGHUP and SIGUSR1 for this thread and all threads that it starts; ignores SIGPIPE.
/// Construct it before any thread. One per process.
class Signals {
 public:
  Signals();
  /// Blocks until one of these signals arrives. Returns its number.
  int wait() const;
  /// Ends a wait(), now or later, from any thread; wait() then returns SIGUSR1.
  void wake() const;

 private:
  sigset_t set_;
};

}  // namespace egpu::cmd
