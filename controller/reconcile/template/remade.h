// ResourceClaimTemplates that are made anew because they say something else than they must. Where the API server itself changes
// what it is given (a mutating admission policy or webhook), that would go on for ever: each time it waits for longer.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>

#include "api/core/meta.h"
#include "controller/base/clock.h"

namespace egpu::reconcile {

/// Thread-safe. What it remembers is lost with the process. The clock must outlive it.
class Remade {
 public:
  static constexpr std::chrono::milliseconds kFirst{1'000};
  static constexpr std::chrono::milliseconds kLongest{300'000};

  explicit Remade(base::Clock& clock) : clock_(clock) {}

  /// It says something else: how long it stays as it is. 0: it is to be made anew now, which is noted.
  std::chrono::milliseconds wait(const core::ObjectKey& key);
  /// It says what it must, or nobody wants it any more.
  void over(const core::ObjectKey& key);
  std::size_t remembered() const;

 private:
  struct Times {
    std::chrono::milliseconds pause{0};
    base::Clock::Steady next{};
  };
  base::Clock& clock_;
  mutable std::mutex mutex_;
  std::map<core::ObjectKey, Times> known_;  ///< guarded by mutex_
};

}  // namespace egpu::reconcile
