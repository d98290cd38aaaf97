// Calls of a plugin that are under way: no more than stated, or one that hangs has all threads.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "controller/base/status.h"

namespace egpu::agent {

/// Thread-safe; must outlive what it gave.
class Turns {
 public:
  explicit Turns(int most) : most_(most) {}

  /// A call, while it lives.
  class Turn {
   public:
    Turn(Turns& turns, std::string plugin) : turns_(&turns), plugin_(std::move(plugin)) {}
    Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)), plugin_(std::move(other.plugin_)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (turns_ != nullptr) turns_->end(plugin_);
    }

   private:
    Turns* turns_;
    std::string plugin_;
  };

  /// Code::unavailable at once if all turns with this plugin are taken.
  base::Result<Turn> take(const std::string& plugin) {
    const std::lock_guard lock(mutex_);
    int& taken = taken_[plugin];
    if (taken >= most_)
      return base::Status(base::Code::unavailable, "provisioner " + plugin + " works on " + std::to_string(taken) +
                                                       " calls of this node and answers none of them; try again");
    ++taken;
    return Turn(*this, plugin);
  }

 private:
  void end(const std::string& plugin) {
    const std::lock_guard lock(mutex_);
    if (--taken_[plugin] == 0) taken_.erase(plugin);
  }

  const int most_;
  std::mutex mutex_;
  std::map<std::string, int> taken_;  ///< by plugin; protected by mutex_
};

}  // namespace egpu::agent
