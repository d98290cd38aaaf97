// Resizes that came to nothing, so that they are not tried again at once; and when last was said why one can't be.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "api/core/meta.h"
#include "controller/base/clock.h"

namespace egpu::reconcile {

/// Thread-safe. Lost with the process, which only costs one more try each.
class ResizesRefused {
 public:
  static constexpr std::chrono::milliseconds kExplainEvery{15'000};

  explicit ResizesRefused(base::Clock& clock) : clock_(clock) {}

  struct Refusal {
    std::string reason, message;  ///< empty: there is none, or its time is over
    std::chrono::milliseconds endsIn{0};
  };
  /// These requests of the claim were refused: not tried again until they are others, or the time is over, `first` and twice as long each time, at
  /// most `longest`.
  void refused(const std::string& claimUid, const core::StringMap& requests, std::string_view reason,
               const std::string& message, std::chrono::milliseconds first, std::chrono::milliseconds longest);
  Refusal refusal(const std::string& claimUid, const core::StringMap& requests) const;
  /// Why these requests don't fit may be said again only kExplainEvery after the last time: true = now (and noted).
  bool mayExplain(const std::string& claimUid, const core::StringMap& requests);
  void forgetClaim(const std::string& claimUid);
  std::size_t claims() const;

 private:
  struct Known {
    core::StringMap requests;
    std::string reason, message;
    int times = 0;
    base::Clock::Steady until{}, explainAgain{};
  };
  Known& of(const std::string& claimUid, const core::StringMap& requests);

  base::Clock& clock_;
  mutable std::mutex mutex_;
  std::map<std::string, Known> known_;  ///< by claim; guarded by mutex_
};

}  // namespace egpu::reconcile
