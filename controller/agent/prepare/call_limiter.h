// Limits concurrent calls per plugin, so that a plugin that hangs does not block all threads.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "controller/base/mutex.h"
#include "controller/base/status.h"

namespace egpu::agent {

/// Thread-safe; must outlive all RunningCall objects.
class CallLimiter {
 public:
  explicit CallLimiter(int maxCalls) : maxCalls_(maxCalls) {}

  /// One running call; ends with the object's lifetime.
  class RunningCall {
   public:
    RunningCall(CallLimiter& limiter, std::string plugin) : limiter_(&limiter), plugin_(std::move(plugin)) {}
    RunningCall(RunningCall&& other) noexcept
        : limiter_(std::exchange(other.limiter_, nullptr)), plugin_(std::move(other.plugin_)) {}
    RunningCall& operator=(RunningCall&&) = delete;
    ~RunningCall() {
      if (limiter_ != nullptr) limiter_->end(plugin_);
    }

   private:
    CallLimiter* limiter_;
    std::string plugin_;
  };

  /// Returns Code::unavailable without waiting if the plugin is at its limit.
  base::Result<RunningCall> take(const std::string& plugin) {
    const base::MutexLock lock(mutex_);
    int& taken = taken_[plugin];
    if (taken >= maxCalls_)
      return base::Status(base::Code::unavailable, "provisioner " + plugin + " has not answered " +
                                                       std::to_string(taken) + " calls of this node yet; try again");
    ++taken;
    return RunningCall(*this, plugin);
  }

 private:
  void end(const std::string& plugin) {
    const base::MutexLock lock(mutex_);
    if (--taken_[plugin] == 0) taken_.erase(plugin);
  }

  const int maxCalls_;
  base::Mutex mutex_;
  std::map<std::string, int> taken_ EGPU_GUARDED_BY(mutex_);  ///< by plugin
};

}  // namespace egpu::agent
