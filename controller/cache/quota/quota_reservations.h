// Quota that is reserved for claims that have waited for it for long: one reservation per namespace, for the first in
// queue order. Claims that come later take nothing that the owner needs, so that what becomes free piece by piece adds
// up.
//
//   quota 100Gi, 100Gi used by ten claims; a waits for 60Gi since ten minutes, b of lower priority for 10Gi
//   one of the ten ends: 10Gi are free, and b waits on; six have ended: a is bound; one more: b is bound
//
// A reservation ends when its owner is decided, goes, or has not asked for kReservationTtl. After kReservationAtMost it
// ends in any case, and the namespace has none for as long: holders that never end block nobody for ever. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/quota/quota.h"
#include "controller/scheduler/waiting.h"

namespace egpu::cache {

/// Claims that are decided together and wait for quota of their namespace.
struct QuotaWaiter {
  scheduler::Waiter first;  ///< the claim that stands for them in queue order
  std::vector<std::string> claimUids;
  std::vector<scheduler::QuotaAsked> asked;  ///< the least that they need
};

class QuotaReservations {
 public:
  static constexpr int64_t kReservationTtl = 600;  ///< seconds; longer than any wait of a claim between two attempts
  static constexpr int64_t kReservationRenewAfter = 120;
  static constexpr int64_t kReservationAtMost = 86'400;

  bool empty() const { return spaces_.empty(); }
  /// The claims were refused at `now`: they get or renew the namespace's reservation, unless another owner comes first
  /// or the namespace rests. True: another claim's reservation ended by that.
  bool reserve(const std::string& namespace_, QuotaWaiter waiter, int64_t now);
  /// The claim has asked again, whatever kept it.
  void renew(std::string_view claimUid, int64_t now);
  /// The claim needs no reservation any more. Returns the namespace whose reservation ended; empty: it had none.
  std::string release(std::string_view claimUid);
  /// Reservations that were not renewed in time end. Returns their namespaces.
  std::vector<std::string> expire(int64_t now);
  /// Names of the owners that should ask again to keep theirs.
  std::vector<std::string> ownersToAsk(int64_t now) const;
  /// The reservation of the namespace; null: there is none.
  const QuotaWaiter* find(std::string_view namespace_) const;

 private:
  struct Space {
    std::optional<QuotaWaiter> owner;
    int64_t since = 0;       ///< when the owner got it
    int64_t askedAt = 0;     ///< when the owner asked last
    int64_t restsUntil = 0;  ///< no reservation before
  };

  std::map<std::string, Space, std::less<>> spaces_;  ///< by namespace
};

}  // namespace egpu::cache
