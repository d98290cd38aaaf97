// Usage of a claim's cards, as the cards' objects report it. It is copied to the claim's status for people, at
// intervals.
#pragma once

#include <chrono>
#include <optional>

#include "controller/base/clock.h"
#include "controller/cache/stores.h"
#include "controller/reconcile/result.h"

namespace egpu::reconcile {

/// Step of the key usage/<claim>, which card events enqueue. No claim's own step depends on usage. Thread-safe.
class ClaimUse {
 public:
  /// every: minimum time between two writes of one claim's usage.
  ClaimUse(const cache::Stores& stores, base::Clock& clock, std::chrono::milliseconds every)
      : stores_(stores), clock_(clock), every_(every) {}

  /// Reports the usage if it moved noticeably: by 1/20 of the grant or of a card's time, or to or from zero.
  Outcome step(const core::ObjectKey& claim) const;

 private:
  struct Sum {
    int64_t memory = 0, smPercent = 0;  ///< -1 = unknown
    int64_t grantedMemory = 0, cards = 0;
  };
  std::optional<Sum> sumOf(const cache::Claim& claim) const;

  const cache::Stores& stores_;
  base::Clock& clock_;
  const std::chrono::milliseconds every_;
};

}  // namespace egpu::reconcile
