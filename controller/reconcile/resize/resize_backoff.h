// Backoff of refused resizes, and of the explanation why a resize does not fit.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

#include "api/core/meta.h"
#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/reconcile/timeouts.h"

namespace egpu::reconcile {

/// Thread-safe. In memory only; a restart costs one more try for each.
class ResizeBackoff {
 public:
  ResizeBackoff(base::Clock& clock, const Timeouts& timeouts) : clock_(clock), timeouts_(timeouts) {}

  struct ResizeRefusal {
    std::string reason, message;  ///< empty: there is none, or its backoff is over
    std::chrono::milliseconds endsIn{0};
  };
  /// Records that these requests of the claim were refused. They are not tried again until they change or the backoff
  /// ends: `first`, doubled each time, at most `longest`.
  void refused(const std::string& claimUid, const core::StringMap& requests, std::string_view reason,
               const std::string& message, std::chrono::milliseconds first, std::chrono::milliseconds longest);
  ResizeRefusal refusal(const std::string& claimUid, const core::StringMap& requests) const;
  /// True, and recorded, if the explanation for these requests may be written: once every Timeouts::explainInterval.
  bool mayExplain(const std::string& claimUid, const core::StringMap& requests);
  void forgetClaim(const std::string& claimUid);
  std::size_t claims() const;

 private:
  struct RefusedRequests {
    core::StringMap requests;
    std::string reason, message;
    int times = 0;
    base::Clock::Steady until{}, explainAgain{};
  };
  RefusedRequests& of(const std::string& claimUid, const core::StringMap& requests) EGPU_REQUIRES(mutex_);

  base::Clock& clock_;
  const Timeouts& timeouts_;
  mutable base::Mutex mutex_;
  std::map<std::string, RefusedRequests> refused_ EGPU_GUARDED_BY(mutex_);  ///< by claim
};

}  // namespace egpu::reconcile
