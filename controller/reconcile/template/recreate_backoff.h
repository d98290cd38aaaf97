// Backoff of ResourceClaimTemplates that are created again because their content differs. If the API server itself
// changes them (a mutating admission policy or webhook), this would go on forever, so each wait is longer.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>

#include "api/core/meta.h"
#include "controller/base/clock.h"

namespace egpu::reconcile {

/// Thread-safe. In memory only. The clock must outlive it.
class TemplateRecreateBackoff {
 public:
  static constexpr std::chrono::milliseconds kFirst{1'000};
  static constexpr std::chrono::milliseconds kMaxBackoff{300'000};

  explicit TemplateRecreateBackoff(base::Clock& clock) : clock_(clock) {}

  /// Called when the content differs. Returns the remaining backoff; 0: create it again now, which starts the next one.
  std::chrono::milliseconds wait(const core::ObjectKey& key);
  /// Ends the backoff: the content is right, or no pod or template needs it any more.
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
