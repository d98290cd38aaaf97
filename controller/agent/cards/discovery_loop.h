// Queries the plugins for their cards periodically. Each plugin has its own thread, so that a plugin that hangs does
// not delay the cards of the others.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "controller/agent/cards/discovery_results.h"
#include "controller/agent/cards/wakeable_timer.h"
#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/base/mutex.h"

namespace egpu::agent::cards {

/// Thread-safe.
class DiscoveryLoop {
 public:
  /// `interval`: time between two queries of a plugin; up to a fifth of it is added at random. `answered` is called on
  /// a plugin's thread after each answer.
  DiscoveryLoop(plugin::Registry& plugins, base::Clock& clock, base::Random& random, std::chrono::milliseconds interval,
                std::function<void()> answered);
  ~DiscoveryLoop();

  void start();
  /// Interrupts the sleeps and joins the threads; waits for running calls of plugins.
  void stop();
  /// Queries all plugins immediately.
  void wake();
  Answers answers() const;
  /// True if every loaded plugin has answered at least once.
  bool complete() const;

 private:
  /// Receives the registry's notifications. The registry may outlive the loop, and calls the listener until its own
  /// end.
  struct Listener {
    base::Mutex mutex;
    DiscoveryLoop* loop EGPU_GUARDED_BY(mutex) = nullptr;  ///< null after the destruction of the loop
  };
  struct Asker {
    WakeableTimer alarm;
    /// Number of the plugin's process; changes when that may have ended. Guarded by the mutex_ of the loop.
    uint64_t process = 0;
    std::jthread thread;
  };
  void changed(const std::string& name);
  uint64_t processOf(const Asker& asker) const;
  void run(const std::string& name, Asker& asker, std::stop_token stop);

  plugin::Registry& plugins_;
  base::Clock& clock_;
  base::Random& random_;
  const std::chrono::milliseconds interval_;
  const std::function<void()> answered_;
  const std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
  mutable base::Mutex mutex_;
  bool running_ EGPU_GUARDED_BY(mutex_) = false;
  uint64_t processes_ EGPU_GUARDED_BY(mutex_) = 0;  ///< last number given to a process, counted over all plugins
  Answers answers_ EGPU_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<Asker>, std::less<>> askers_ EGPU_GUARDED_BY(mutex_);  ///< by plugin
};

}  // namespace egpu::agent::cards
