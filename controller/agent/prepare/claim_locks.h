// One lock per claim, which exists only while a thread holds it or waits for it.
#pragma once

#include <condition_variable>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>

#include "controller/base/mutex.h"

namespace egpu::agent {

/// Thread-safe; must outlive all ClaimLock objects.
class ClaimLocks {
 public:
  class ClaimLock {
   public:
    ClaimLock(ClaimLocks& locks, std::string claim) : locks_(&locks), claim_(std::move(claim)) {}
    ClaimLock(ClaimLock&& other) noexcept
        : locks_(std::exchange(other.locks_, nullptr)), claim_(std::move(other.claim_)) {}
    ClaimLock& operator=(ClaimLock&&) = delete;
    ~ClaimLock() {
      if (locks_ != nullptr) locks_->release(claim_);
    }

   private:
    ClaimLocks* locks_;
    std::string claim_;
  };

  /// Blocks until the claim's lock is free; returns nullopt if stopped meanwhile.
  std::optional<ClaimLock> hold(const std::string& claim, std::stop_token stop) {
    base::MutexLock lock(mutex_);
    if (!changed_.wait(lock, stop, [&]() EGPU_REQUIRES(mutex_) { return held_.count(claim) == 0; }))
      return std::nullopt;
    held_.insert(claim);
    return ClaimLock(*this, claim);
  }

 private:
  void release(const std::string& claim) {
    base::MutexLock lock(mutex_);
    held_.erase(claim);
    changed_.notify_all();
  }

  base::Mutex mutex_;
  std::condition_variable_any changed_;
  std::set<std::string> held_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::agent
