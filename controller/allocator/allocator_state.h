// The parts of the allocator, with the one mutex that guards them. Internal to controller/allocator/: its users call
// Allocator, Queries and AllocationMapReader.
//
//   ClusterState        cards, devices, assumed decisions
//   QuotaAccounting     usage of quotas, reserved quota
//   Nominator           capacity that preemptors wait for
//   Reservations        nodes that are reserved for claims pending for long
//   UnschedulableCache  requests that do not fit until capacity is freed
//   DemandStatistics    requests of pending claims, for the fragmentation score
//
// A notification of the stores updates the parts under the mutex. Then announce() calls the listeners without it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/allocator/nominator.h"
#include "controller/allocator/quota/quota_accounting.h"
#include "controller/allocator/reservations.h"
#include "controller/allocator/scheduling_request.h"
#include "controller/allocator/state/cluster_state.h"
#include "controller/allocator/state/demand_statistics.h"
#include "controller/allocator/state/holder_ages.h"
#include "controller/allocator/state/unschedulable_cache.h"
#include "controller/base/mutex.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/choice/colocate.h"
#include "controller/scheduler/gang.h"

namespace egpu::allocator {

/// Carries out a nomination in `cluster`: releases the victims, and allocates the nominated capacity under `key`.
void carryOut(scheduler::Cluster& cluster, const std::string& key, const NominatedClaim& nominated,
              const std::vector<std::string>& victimUids);

/// Snapshot for searches without the mutex, after the nominations that come before the requests are carried out.
class ProjectedSnapshot {
 public:
  /// A nomination to carry out.
  struct PendingNomination {
    std::string key;
    NominatedClaim nominated;
    std::vector<std::string> victimUids;
  };
  std::shared_ptr<const scheduler::Cluster> cluster;
  std::vector<std::string> closed;  ///< nodes whose reservation blocks the requests
  scheduler::QuotaBook book{};      ///< quotas of the requests' namespace
  std::vector<PendingNomination> pending{};

  /// Carries out the nominations. Call without the mutex: it may copy the cluster.
  void carryOutPending();
  /// Returns `suits` without the closed nodes. Refers to this object.
  scheduler::NodePredicate open(const scheduler::NodePredicate& suits) const;
};

struct AllocatorState {
  static constexpr std::size_t kCardsAtOnce = 256;  ///< visited per critical section

  explicit AllocatorState(cache::Stores& from);  ///< registers itself with the stores, which must outlive it
  AllocatorState(const AllocatorState&) = delete;
  AllocatorState& operator=(const AllocatorState&) = delete;

  /// Unlocks for a moment so that another thread can decide. A mutex that is locked again at once is never free for
  /// the threads that wait for it.
  void yield() EGPU_REQUIRES(mutex);

  /// Quota identity of the claim; nullopt if its namespace has no quotas. Calls countForQuotas() first.
  std::optional<scheduler::QuotaClaim> quotaClaimFor(const SchedulingRequest& ask) EGPU_REQUIRES(mutex);
  /// Quota identities of those claims whose namespace has quotas.
  std::vector<scheduler::QuotaClaim> quotaClaimsFor(const std::vector<SchedulingRequest>& asks) EGPU_REQUIRES(mutex);
  /// Amounts that quotas count if the claim takes this device; nullopt if no quota counts them.
  std::optional<scheduler::QuotaAsked> askedWith(const SchedulingRequest& ask, const cache::Gpu& device)
      EGPU_REQUIRES(mutex);
  /// Decides the requests on one node within the quotas. `requests` may differ from those in `asks`.
  scheduler::Together decideWithinQuotas(const std::vector<SchedulingRequest>& asks,
                                         const std::vector<scheduler::Request>& requests,
                                         const scheduler::NodePredicate& suits, const scheduler::Pause& pause)
      EGPU_REQUIRES(mutex);
  /// Gang members for the requests, each with its quota identity. Ignores nominations and reservations.
  std::vector<scheduler::GangMember> membersOf(const std::vector<SchedulingRequest>& asks,
                                               const std::vector<GangMemberConstraints>& places) EGPU_REQUIRES(mutex);
  /// Call carryOutPending() without the mutex before the result is used.
  ProjectedSnapshot projectedSnapshot(const std::vector<SchedulingRequest>& asks) EGPU_REQUIRES(mutex);

  /// Calls visit(owner, node) for each nomination and reservation that withholds capacity from the requests, placed
  /// together on one node.
  template <class Visit>
  void eachWithheld(const std::vector<SchedulingRequest>& asks, const Visit& visit) const EGPU_REQUIRES(mutex) {
    nominator.eachBlocking(asks, [&visit](const std::string&, const NominatedClaim& nominated) {
      visit(nominated.owner, nominated.nomination.nodeName);
    });
    reservations.eachBlocking(asks, [&visit](const std::string&, const NodeReservation& reservation) {
      visit(reservation.owner, reservation.node);
    });
  }

  /// Assumes the decision, and releases the claim's reservations.
  void assume(const SchedulingRequest& ask, const scheduler::Decision& decision, bool ofGang = false)
      EGPU_REQUIRES(mutex);
  /// Releases the node and the quota that are reserved for the claim.
  void releaseReservations(std::string_view claimUid) EGPU_REQUIRES(mutex);
  /// Releases the node reservations of requests that exceed a quota, and may reserve the quota for them.
  void reserveQuota(const std::vector<SchedulingRequest>& asks, const scheduler::QuotaExcess& excess)
      EGPU_REQUIRES(mutex);
  /// Updates hasReservations after reservations were added.
  void noteReservations() EGPU_REQUIRES(mutex);

  void refreshDevice(const std::string& name) EGPU_EXCLUDES(mutex);
  /// True if announce() would call a listener.
  bool hasNews() const EGPU_REQUIRES(mutex);
  /// See Allocator::isOutdated().
  bool isOutdated(const QueueOrder& order) const EGPU_REQUIRES(mutex);
  /// Takes the changes since the last call, and calls the listeners without the mutex.
  void announce() EGPU_EXCLUDES(mutex);

  cache::Stores& stores;
  HolderAges ages;
  PendingWrites writes;
  std::atomic<uint64_t> releases{0};  ///< number of announced releases; written with `mutex` held, read without it
  std::atomic<bool> hasReservations{false};     ///< written with `mutex` held, read without it
  std::atomic<bool> hasListener{false};         ///< set before the stores fill
  std::atomic<bool> isSearchingForNode{false};  ///< a search for a node to reserve runs without `mutex`
  // Listeners; see Allocator. Set before the stores fill.
  std::function<void()> onCapacity;
  std::function<void(const std::string&, bool)> onQuota;
  std::function<void(bool, double)> onDecision;

  base::Mutex mutex;
  QuotaAccounting quotas EGPU_GUARDED_BY(mutex);
  ClusterState cluster EGPU_GUARDED_BY(mutex);
  Nominator nominator EGPU_GUARDED_BY(mutex);
  Reservations reservations EGPU_GUARDED_BY(mutex);
  UnschedulableCache unschedulable EGPU_GUARDED_BY(mutex);
  DemandStatistics demand EGPU_GUARDED_BY(mutex);

 private:
  // The arguments of a store's listener may be outdated: the parts read the store again.
  void refreshClaim(const cache::Claim* before, const cache::Claim* after);
  void refreshNomination(const cache::Claim& claim, bool isGone);
  void refreshNode(const core::Node* before, const core::Node* after);
  void refreshCard(const cache::Gpu* before, const cache::Gpu* after);
  void refreshTaint(const core::DeviceTaintRule* before, const core::DeviceTaintRule* after);
  void refreshQuota(const cache::Quota* before, const cache::Quota* after);
  void refreshPod(const core::Pod* before, const core::Pod* after);
};

}  // namespace egpu::allocator
