// Asks the plugins for their cards again and again, each on a thread of its own: one that hangs keeps no other's cards
// from being published.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "controller/agent/cards/alarm.h"
#include "controller/agent/cards/answers.h"
#include "controller/base/clock.h"
#include "controller/base/ids.h"

namespace egpu::agent::cards {

/// Thread-safe.
class Survey {
 public:
  /// interval: between two questions, up to a fifth of it longer, at random. `answered` is called on a plugin's thread
  /// after each answer.
  Survey(plugin::Registry& plugins, base::Clock& clock, base::Random& random, std::chrono::milliseconds interval,
         std::function<void()> answered);
  ~Survey();

  void start();
  /// Ends the sleeps and joins; a plugin's call is waited for.
  void stop();
  /// Asks all at once.
  void wake();
  Answers answers() const;
  /// Every plugin that is loaded has answered once.
  bool complete() const;

 private:
  /// What the registry calls as long as it lives, which is longer than this.
  struct Listener {
    std::mutex mutex;
    Survey* survey = nullptr;  ///< protected by mutex; null once it is gone
  };
  struct Asker {
    Alarm alarm;
    uint64_t process = 0;  ///< number of the plugin's process; another one where it may have ended
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
  uint64_t processes_ = 0;  ///< numbers given to processes, of all plugins
  Answers answers_;
  std::map<std::string, std::unique_ptr<Asker>, std::less<>> askers_;  ///< by plugin
};

}  // namespace egpu::agent::cards
