// Reservations of quota for claims that have been pending for it for long: one per namespace, for the first claim in
// queue order. Claims that come later take nothing that the owner needs, so that quota that is freed piece by piece
// adds up.
//
//   The quota is 100Gi, used by ten claims of 10Gi. Claim a is pending for 60Gi, b of lower priority for 10Gi.
//   One of the ten ends: 10Gi are free, b stays pending. Six have ended: a is bound. One more ends: b is bound.
//
// A reservation ends when its owner is decided or deleted, or has not renewed it for ReservationLimits::ttl. After
// kMaxReservationTime it ends in any case, and the namespace gets none for the same time. So an owner that is never
// served does not block the namespace permanently. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/allocator/reservation_budget.h"
#include "controller/scheduler/queue_order.h"
#include "controller/scheduler/quota/quota.h"

namespace egpu::allocator {

/// Claims that are decided together and wait for quota of their namespace.
struct QuotaWaiter {
  scheduler::PendingRequest first;  ///< the claim that represents them in queue order
  std::vector<std::string> claimUids;
  std::vector<scheduler::QuotaAsked> asked;  ///< the least that they need
};

class QuotaReservations {
 public:
  static constexpr int64_t kMaxReservationTime = ReservationBudget::kMaxReservationTime;

  /// Only ttl and renewAfter() count.
  void setLimits(const scheduler::ReservationLimits& limits) { limits_ = limits; }
  bool empty() const { return spaces_.empty(); }
  /// Handles a refusal of the claims at `now`: they get or renew the namespace's reservation, unless an owner comes
  /// before them or the namespace is in its pause. Returns true if a reservation ended.
  bool reserve(const std::string& namespace_, QuotaWaiter waiter, int64_t now);
  /// The claim was tried again, with any result.
  void renew(std::string_view claimUid, int64_t now);
  /// Ends the claim's reservation. Returns its namespace; empty if the claim had none.
  std::string release(std::string_view claimUid);
  /// Ends reservations that were not renewed in time. Returns their namespaces.
  std::vector<std::string> expire(int64_t now);
  /// Names of the owners that should renew their reservations.
  std::vector<std::string> ownersToAsk(int64_t now) const;
  /// Owner of the namespace's reservation; null if there is none.
  const QuotaWaiter* find(std::string_view namespace_) const;

 private:
  struct Space {
    std::optional<QuotaWaiter> owner;
    int64_t since = 0;       ///< start of the owner's reservation
    int64_t askedAt = 0;     ///< last renewal
    int64_t restsUntil = 0;  ///< no reservation before
  };

  scheduler::ReservationLimits limits_;
  std::map<std::string, Space, std::less<>> spaces_;  ///< by namespace
};

}  // namespace egpu::allocator
