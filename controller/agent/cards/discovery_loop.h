// Queries the plugins for their cards periodically. Each plugin has its own thread, so that a plugin that hangs does
// not delay the cards of the others.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "controller/agent/cards/discovery_results.h"
#include "controller/agent/cards/wakeable_timer.h"
#include "controller/base/clock.h"
#include "controller/base/ids.h"

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
  /// Receives the registry's notifications. The registry may outlive the survey and calls it until then.
  struct Listener {
    std::mutex mutex;
    DiscoveryLoop* survey = nullptr;  ///< protected by mutex; null after the survey's destruction
  };
  struct Asker {
    WakeableTimer alarm;
    uint64_t process = 0;  ///< number of the plugin's process; changes when that may have ended
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
  mutable std::mutex mutex_;
  // State below is protected by mutex_.
  bool running_ = false;
  uint64_t processes_ = 0;  ///< last number given to a process, counted over all plugins
  Answers answers_;
  std::map<std::string, std::unique_ptr<Asker>, std::less<>> askers_;  ///< by plugin
};

}  // namespace egpu::agent::cards
