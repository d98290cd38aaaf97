// SIGTERM and SIGINT as something to wait for.
#pragma once

#include <csignal>

namespace egpu::cmd {

/// Blocks SIGTERM, SIGINT and SIGHUP for this thread and all it starts, ignores SIGPIPE. Construct before any thread.
/// One per process.
class Signals {
 public:
  Signals();
  /// Blocks until one of them; its number.
  int wait() const;

 private:
  sigset_t set_;
};

}  // namespace egpu::cmd
