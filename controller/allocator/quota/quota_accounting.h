// Usage of the namespaces' quotas by the allocations of the cluster, and quota that is reserved for pending claims.
//
// Quotas are checked in the same critical section as placements and count the same allocations. An allocation counts
// for the claim that its device or its decision names, otherwise for the claim that the ledger entry names. The
// allocation of a device without a claimRef counts for no claim. ClusterState reports each allocation to count().
//
// Two leaders that overlap may each decide up to a quota and together exceed it. They cannot over-commit a card: the
// API server guards its ledger.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/allocator/quota/quota_reservations.h"
#include "controller/allocator/scheduling_request.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/cluster.h"
#include "controller/scheduler/quota/book.h"

namespace egpu::allocator {

/// Parts of a remote device: one per GPU that it stands for, without amounts and model. So a claim of remote GPUs
/// counts for the keys gpu and claims, in quotas that are not limited to models.
std::vector<scheduler::QuotaPart> remoteQuotaParts(const cache::Gpu& device);

/// Not thread-safe.
class QuotaAccounting {
 public:
  /// Replaces all quotas of the namespace.
  void setQuotas(const std::string& namespace_, std::vector<scheduler::Quota> quotas);
  /// True if there are no quotas. Allocations need not be reported then.
  bool empty() const { return book_.empty(); }
  bool counts(std::string_view namespace_) const { return book_.counts(namespace_); }
  /// True if a namespace got its first quota since the last call: every allocation must then be reported again.
  bool mustRecount() { return book_.takeUncounted(); }

  /// Records the allocation of a holder (uid of a device, or of an assumption) on a card. owner: nullopt if it counts
  /// for no claim.
  void count(const std::string& holder, const std::optional<scheduler::QuotaClaim>& owner, const std::string& cardName,
             const scheduler::CardView& card, const scheduler::Amount& charged);
  /// Records a remote device. owner: as in count().
  void countRemote(const std::optional<scheduler::QuotaClaim>& owner, const cache::Gpu& device);
  /// Records the parts of an existing device that the claim is about to get, until drop(). holder: uid of the
  /// assumption.
  void countDevice(const std::string& holder, const scheduler::QuotaAsked& asked, const cache::Gpu& device);
  void drop(const std::string& holder, const std::string& cardName) { book_.drop(holder, cardName); }
  void drop(const std::string& holder) { book_.drop(holder); }

  /// For decisions within the quotas.
  const scheduler::QuotaBook& book() const { return book_; }
  /// Counts nominated and reserved quota as used until the next call. Empty: none.
  void hold(const std::vector<scheduler::QuotaHold>& holds) { book_.hold(holds); }
  /// Amounts that the quotas leave to the claim beside these holds.
  std::vector<scheduler::RemainingQuota> remaining(const scheduler::QuotaClaim& claim,
                                                   const std::vector<scheduler::QuotaHold>& holds);
  /// Returns why the claim cannot have these parts beside these holds, and notes the refusal.
  std::optional<scheduler::QuotaExcess> excessOf(const scheduler::QuotaAsked& asked,
                                                 const std::vector<scheduler::QuotaHold>& holds);
  /// A claim of the namespace was refused: report when its quotas are freed.
  void noteRefused(std::string_view namespace_) { book_.refused(namespace_); }
  /// Nominated or reserved quota of the namespace was freed.
  void noteFreed(std::string_view namespace_) { book_.noteFreed(namespace_); }
  bool hasChanges() const { return book_.changed(); }
  /// True if one of them freed quota.
  bool hasFreed() const { return book_.hasFreed(); }
  /// Returns and clears the namespaces whose quotas or usage changed.
  std::vector<scheduler::QuotaBook::Change> takeChanges() { return book_.takeChanges(); }

  /// Amounts that are reserved for claims of the namespace which come before these requests in queue order.
  std::vector<scheduler::QuotaAsked> reservedBefore(const std::string& namespace_,
                                                    const std::vector<SchedulingRequest>& asks) const;
  void setReservationLimits(const scheduler::ReservationLimits& limits) { reservations_.setLimits(limits); }
  bool hasReservations() const { return !reservations_.empty(); }
  /// Reserves quota of the namespace for claims that exceed it, unless the quotas never allow their amounts.
  void reserve(const std::string& namespace_, QuotaWaiter waiter, int64_t now);
  void renewReservation(std::string_view claimUid, int64_t now) { reservations_.renew(claimUid, now); }
  /// The claim does not wait for quota any more.
  void releaseReservation(std::string_view claimUid);
  /// Ends reservations that were not renewed in time.
  void expireReservations(int64_t now);
  /// Names of the owners that should renew their reservations.
  std::vector<std::string> ownersToAsk(int64_t now) const { return reservations_.ownersToAsk(now); }

 private:
  scheduler::QuotaBook book_;
  QuotaReservations reservations_;
};

}  // namespace egpu::allocator
