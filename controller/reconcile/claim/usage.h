// What a claim uses, as its cards' objects say: copied into its status for people, seldom.
#pragma once

#include <chrono>
#include <optional>

#include "controller/base/clock.h"
#include "controller/cache/stores.h"
#include "controller/reconcile/outcome.h"

namespace egpu::reconcile {

/// The key usage/<claim>: an event of a card brings it, and no claim is looked at for it. Thread-safe.
class ClaimUse {
 public:
  /// every: between two writes of one claim's use.
  ClaimUse(const cache::Stores& stores, base::Clock& clock, std::chrono::milliseconds every)
      : stores_(stores), clock_(clock), every_(every) {}

  /// Says what is used, if it moved noticeably: by a twentieth of the grant or of a card's time, or to or from zero.
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
