// Decides where claims are placed, and assumes the decisions, in one critical section: no two decisions use the same
// capacity. The parts that it consists of: allocator_state.h.
//
// A decision does not use capacity that is withheld for claims earlier in queue order (scheduler::queueLess()):
//   nominated capacity   nominator.h            for preemptors while their victims leave
//   reserved nodes       reservations.h         for claims that have been pending for long
//   reserved quota       quota_reservations.h   for claims that exceed a quota
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/allocator/allocation_map.h"
#include "controller/allocator/cluster_observer.h"
#include "controller/allocator/queries.h"
#include "controller/allocator/reservation_search.h"
#include "controller/allocator/scheduling_request.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/choice/colocate.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/gang.h"
#include "controller/scheduler/queue_order.h"
#include "controller/scheduler/resize.h"

namespace egpu::allocator {

struct AllocatorState;

/// Public view of an Assumption (state/cluster_state.h): a decision that counts although its claim has no known device
/// yet.
struct AssumedDecision {
  std::string claimUid;
  std::string claim;    ///< "namespace/name"
  uint64_t number = 0;  ///< unique per decision
  std::vector<std::string> cards;
};

/// Thread-safe. The stores must outlive it.
class Allocator {
 public:
  using SchedulingRequest = allocator::SchedulingRequest;
  using QueueOrder = allocator::QueueOrder;
  using GangMemberConstraints = allocator::GangMemberConstraints;
  using VictimGroup = Queries::VictimGroup;
  using WithheldFromResize = Queries::WithheldFromResize;

  explicit Allocator(cache::Stores& stores);  ///< registers itself with the stores
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  ~Allocator();

  /// Explanations, dry runs and searches for victims. They assume nothing.
  Queries& queries() { return queries_; }
  const Queries& queries() const { return queries_; }
  /// Allocations per card and node, totals, and differences from the ledger.
  const AllocationMapReader& allocationMap() const { return allocationMap_; }

  /// Decides one request within the quotas of its namespace and, if it fits, assumes its allocations under
  /// "claim/<uid>". Drops an earlier assumption of the claim. `excess` is set if a quota is why it does not fit.
  scheduler::Decision decideAndAssume(const SchedulingRequest& ask, const scheduler::NodePredicate& suits = {});
  /// Number of times that freed capacity was announced (onCapacity(), onQuota()). Takes no lock.
  uint64_t releases() const;
  /// True if capacity was freed, on a card or in a quota, after the queue admitted the request: the first request in
  /// queue order that it suits gets it. decideAndAssume(), decideTogether() and decideGang() then decide nothing, and
  /// the caller asks the queue again. Stays true for the same admission.
  bool isOutdated(const QueueOrder& order) const;
  /// False if decideAndAssume() would find no capacity whatever nodes suit; true if it may. Caches requests that do not
  /// fit until capacity is freed, on a card or in the quotas of their namespace.
  bool mayFit(const SchedulingRequest& ask);
  /// Returns up to `max` decisions, each on a different node, in the order in which decideAndAssume() would choose
  /// them. Assumes nothing, but drops an earlier assumption of the claim.
  std::vector<scheduler::Decision> candidates(const SchedulingRequest& ask, const scheduler::NodePredicate& suits,
                                              std::size_t max);
  /// Decides all requests on one node within the namespace's quotas, all or none, and assumes the decisions. If the
  /// best node of the first request cannot hold them all, evaluates every node once and releases the lock in between.
  scheduler::Together decideTogether(const std::vector<SchedulingRequest>& asks, const scheduler::NodePredicate& suits);
  /// Decides all requests of a gang, each under its own constraints (one per request), all or none, and assumes the
  /// decisions; see scheduler::decideGang(). Respects the namespace's quotas, and nominations and reservations that
  /// block all of the requests. Tries nominated nodes first if each member has one. `within`: groups of nodes, one of
  /// which must hold all members. Releases the lock between groups, and between members whose search takes long. May
  /// reserve nodes for a gang that does not fit (scheduler/choice/plan_reservations.h). Returns nullopt if the request
  /// of the first member is outdated, or a member is assumed or has a device already; the caller then evaluates the
  /// gang again. So of two concurrent callers for one gang, only one decides.
  std::optional<scheduler::GangDecision> decideGang(const std::vector<SchedulingRequest>& asks,
                                                    const std::vector<GangMemberConstraints>& constraints,
                                                    const std::vector<scheduler::TopologyGroup>* within = nullptr);
  /// Decision of decideGang() for the claim while it is assumed. The claim's own step writes it.
  std::optional<scheduler::Decision> decidedInGang(std::string_view claimUid) const;
  /// Decides a resize of the device on its own cards (scheduler::resizeInPlace()), within the quotas of its namespace
  /// and beside capacity that is nominated or reserved for other claims. In place, the additional amounts count from
  /// now on, until the device has another target or forgetResize() is called. They are assumed under the device's own
  /// uid, beside the amounts of its object and its entries. Drops an earlier decision for the device. Nullopt: the
  /// device would grow, but requests before it in queue order come first, because `mayGrow` is false or the request is
  /// outdated.
  std::optional<scheduler::Resizing> decideResize(const SchedulingRequest& ask, const cache::Gpu& device, bool mayGrow);
  /// Drops the decision of decideResize() for the device. Takes no lock while no resize is decided.
  void forgetResize(const cache::Gpu& device);
  /// Charges the quotas for an existing device that the claim is about to get, as a decision would. Returns the excess,
  /// and charges nothing, if a quota is exceeded. Drops an earlier assumption of the claim.
  std::optional<scheduler::QuotaExcess> chargeQuotas(const SchedulingRequest& ask, const cache::Gpu& device);

  /// Drops the claim's assumption and reservations: the decision was not written, or nothing can be decided. Once the
  /// claim's device exists, the assumption ends by itself.
  void forget(std::string_view claimUid);
  /// Drops assumptions for claims of the name "namespace/name" with another uid (empty = with any uid): these claims
  /// are gone. If a device was written for one of them, the device counts by itself.
  void forgetEarlier(std::string_view claim, std::string_view uid);
  /// Drops the claim's assumption if it still has this number. False if there is no such decision any more.
  bool forgetDecision(std::string_view claimUid, uint64_t number);
  /// Ends the claim's assumption: its device counts from now on, whichever process decided it.
  void confirm(std::string_view claimUid, const cache::Gpu& device);
  /// True if any decision is assumed. Takes no lock.
  bool hasAssumptions() const;
  std::vector<AssumedDecision> assumptions() const;

  /// Sets times and maximum numbers of reservations, of nodes and quota. Call before the first decision.
  void setReservationLimits(const scheduler::ReservationLimits& limits);
  /// Releases the node reservations of requests that exceed a quota (of one claim, or of several that are decided
  /// together), and may reserve the quota for them. decideAndAssume() and decideGang() do this themselves.
  void reserveQuotaFor(const std::vector<SchedulingRequest>& asks, const scheduler::QuotaExcess& excess);
  /// May reserve a node for requests (of one claim, or of several of one pod) that fit no node which `suits` accepts:
  /// such a node or otherwise one that `otherwise` accepts (null = none). decideAndAssume() and decideTogether() do
  /// this themselves, with `suits` only. Releases the lock during the search.
  void reserveNodeFor(const std::vector<SchedulingRequest>& asks, const scheduler::NodePredicate& suits,
                      const scheduler::NodePredicate& otherwise);
  /// Releases the claim's reservations because it is not wanted at present. Its assumption stays.
  void releaseReservation(std::string_view claimUid);
  /// True if a node or quota is reserved. Possibly outdated: true until expireReservations() finds none. Takes no lock.
  bool hasReservations() const;
  /// Ends reservations of nodes and quota that were not renewed for ReservationLimits::ttl. Returns the owners
  /// ("namespace/name") that should renew theirs if they still need it.
  std::vector<std::string> expireReservations(int64_t now);

  /// Sets the callback for freed capacity: an allocation was released, or a card or node became schedulable, so pending
  /// claims may fit. Called without the lock. Set before the stores fill.
  void onCapacity(std::function<void()> listener);
  /// Sets the callback for changes of the namespace's quotas, or of the usage that they count. freed: claims that
  /// exceeded a quota may be within it now. Called without the lock. Set before the stores fill.
  void onQuota(std::function<void(const std::string& namespace_, bool freed)> listener);
  /// Sets the callback after each decision: whether it fits, and how long it took. Called without the lock. Set before
  /// the first decision.
  void onDecision(std::function<void(bool fits, double seconds)> listener);
  /// Reports every change of the cluster state, and every decision, to `listener`. Set before the stores fill;
  /// `listener` must outlive the allocator.
  void listen(ClusterListener& listener);
  /// Reports the whole cluster to the listener now if it requested that (ClusterListener::wantsAll). Without this call,
  /// the report comes before the next decision.
  void offerSnapshot();

 private:
  std::unique_ptr<AllocatorState> state_;
  ReservationSearch reservationSearch_;
  Queries queries_;
  AllocationMapReader allocationMap_;
};

}  // namespace egpu::allocator
