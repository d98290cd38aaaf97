// Nodes that are reserved for claims and gangs which have been pending for long, so that capacity that is freed piece
// by piece adds up for them. Requests that come later in queue order (scheduler::queueLess()) do not get these nodes.
//
//   limits     scheduler::ReservationLimits: pending time, number of nodes, share of the free cards of a small cluster
//   renewal    The owner renews its reservation each time it is tried. After limits().renewAfter() it is asked to, and
//              after limits().ttl without renewal the reservation expires.
//   budget     reservation_budget.h: time in total per claim and per namespace, and per namespace for gangs
//   search     One at a time, at most one per second, without the allocator's lock: reservation_search.h. A claim for
//              which no node was found backs off.
//
// Reservations are not stored in the cluster: the next leader searches again.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/allocator/reservation_budget.h"
#include "controller/allocator/scheduling_request.h"
#include "controller/allocator/state/cluster_state.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/choice/plan_reservations.h"
#include "controller/scheduler/queue_order.h"
#include "controller/scheduler/score_nodes.h"

namespace egpu::allocator {

/// Reservation of a node. Times are as QueueOrder::now.
struct NodeReservation {
  scheduler::PendingRequest owner;
  std::string node;
  int64_t searchedAt = 0;  ///< last search
  int64_t renewedAt = 0;   ///< last renewal: a decision for it was tried and did not fit
  int moves = 0;           ///< as scheduler::ReservedNode
  bool ofGang = false;
  int64_t used = 0;  ///< seconds charged to the claim's namespace
};

/// Not thread-safe. All references must outlive it.
class Reservations {
 public:
  static constexpr int64_t kMaxReservationTime = ReservationBudget::kMaxReservationTime;

  Reservations(const cache::Stores& stores, const ClusterState& state) : stores_(stores), state_(state) {}
  void setLimits(const scheduler::ReservationLimits& limits) { limits_ = limits; }
  const scheduler::ReservationLimits& limits() const { return limits_; }

  bool empty() const { return reservations_.empty(); }
  /// Null if no node is reserved for the claim.
  const NodeReservation* find(std::string_view claimUid) const;
  std::vector<scheduler::ReservedNode> list() const;
  /// Message: the node that is reserved for the claim, or why none is. Empty if the claim has not been pending for
  /// long, or no node can ever hold it.
  std::string text(std::string_view claimUid) const;

  /// True if the reservation withholds its node from the requests.
  bool blocks(const std::vector<SchedulingRequest>& asks, const std::string& ownerUid,
              const NodeReservation& reservation) const;
  /// Calls visit(uid of the owner, reservation) for each reservation that blocks the requests.
  template <class Visit>
  void eachBlocking(const std::vector<SchedulingRequest>& asks, const Visit& visit) const {
    for (const auto& [uid, reservation] : reservations_)
      if (blocks(asks, uid, reservation)) visit(uid, reservation);
  }
  /// Calls visit(owner, node) for each reservation of a claim that waits for it.
  template <class Visit>
  void eachPending(const Visit& visit) const {
    for (const auto& [uid, reservation] : reservations_)
      if (!state_.isPlaced(uid) && !withholdsTooMuch(reservation)) visit(reservation.owner, reservation.node);
  }
  /// Nodes of the reservations of claims other than these two.
  std::vector<std::string> nodesWithout(std::string_view claimUid, std::string_view otherUid) const;
  /// Returns `suits` without nodes whose reservation blocks the requests; `suits` itself if there are none. `asks`,
  /// `suits` and `open` must outlive the result.
  const scheduler::NodePredicate& openNodes(const std::vector<SchedulingRequest>& asks,
                                            const scheduler::NodePredicate& suits,
                                            scheduler::NodePredicate& open) const;
  const scheduler::NodePredicate& openNodes(const std::vector<SchedulingRequest>& asks,
                                            scheduler::NodePredicate&& suits,
                                            scheduler::NodePredicate& open) const = delete;
  /// Clears the verdicts of nodes whose reservation blocks the requests.
  void filterVerdicts(const std::vector<SchedulingRequest>& asks, std::span<const std::string_view> nodes,
                      std::vector<scheduler::NodeVerdict>& verdicts) const;

  /// True if all requests have been pending for so long that a node may be reserved for them.
  bool isPendingLong(const std::vector<SchedulingRequest>& asks) const;
  /// True if a search for nodes to reserve may start now.
  bool shouldSearch(const std::vector<SchedulingRequest>& asks);
  void recordSearch(const SchedulingRequest& ask, bool found);
  /// Maximum number of nodes: one per `share` nodes that have cards; at least one, at most `max`.
  std::size_t maxNodes(std::size_t max, std::size_t share) const;
  /// True if one more node may be reserved for a claim. At the limit, `insteadOf` becomes the claim (uid) that is last
  /// in queue order; true if `pending` comes before it.
  bool isUnderLimit(const scheduler::PendingRequest& pending, std::string& insteadOf) const;
  /// Present reservations of the requests.
  scheduler::CurrentReservations of(const std::vector<SchedulingRequest>& asks) const;
  /// True if nodes are reserved for a gang that comes before these requests.
  bool isAnotherGangFirst(const std::vector<SchedulingRequest>& asks) const;

  /// Applies the result of a search: reserves `node` for one of the requests, `ask`, if it is still allowed; otherwise,
  /// or if `node` is empty, releases its reservation.
  void reserve(const SchedulingRequest& ask, const std::vector<SchedulingRequest>& asks, std::string node);
  /// Applies the result of a search for a gang: replaces its reservations by these. Ends those of other gangs.
  void replace(const std::vector<SchedulingRequest>& asks, const std::vector<scheduler::MemberReservation>& nodes);
  /// Renews the claims' reservations, and charges the time since the last renewal.
  void renew(const std::vector<SchedulingRequest>& asks);
  /// Ends the claims' reservations if they, or their namespace, have used up their time. Returns true if so: none may
  /// begin.
  bool endIfExhausted(const std::vector<SchedulingRequest>& asks);
  /// True if nodes were reserved for gangs of the namespace for too long.
  bool isGangBudgetExhausted(const std::string& namespace_, int64_t now);
  /// Releases the claims' reservations and records why no node is reserved for them.
  void recordUnreserved(const std::vector<SchedulingRequest>& asks, const std::string& why);
  /// Releases the claim's reservation: it does not wait for capacity any more. isServed: it has capacity.
  void release(std::string_view claimUid, bool isServed = false);
  /// True if release() would change something.
  bool concerns(std::string_view claimUid) const;
  /// Ends reservations that were not renewed in time. Returns the owners ("namespace/name") that should renew theirs.
  std::vector<std::string> expire(int64_t now);

  /// True if a node was released since takeFreed().
  bool hasFreed() const { return hasFreed_; }
  bool takeFreed() { return std::exchange(hasFreed_, false); }

 private:
  using ByClaim = std::map<std::string, NodeReservation, std::less<>>;
  /// Removes the reservation. If it was served, its time is not charged to the other claims of the namespace.
  ByClaim::iterator end(ByClaim::iterator reservation, bool isServed);
  /// True if the node has more free cards than a reservation may withhold (ReservationLimits::freeCardPercent). Such
  /// a reservation blocks no request.
  bool withholdsTooMuch(const NodeReservation& reservation) const;

  const cache::Stores& stores_;
  const ClusterState& state_;
  scheduler::ReservationLimits limits_;
  ByClaim reservations_;               ///< by claim uid
  ReservationBudget gangBudget_;       ///< by namespace
  ReservationBudget claimBudget_;      ///< by claim uid
  ReservationBudget namespaceBudget_;  ///< for reservations of claims, by namespace
  /// Why no node is reserved, by claim uid. Pending claims only.
  std::map<std::string, std::string, std::less<>> unreserved_;
  int64_t lastSearch_ = 0;  ///< as QueueOrder::now
  /// Time of recent searches that found no node, by claim uid.
  std::map<std::string, int64_t, std::less<>> failedSearches_;
  bool hasFreed_ = false;
};

/// True if ReservationLimits::freeCardPercent applies: in clusters of fewer nodes with cards than its `share`.
bool isSmallCluster(const scheduler::Cluster& cluster, const scheduler::ReservationLimits& limits);

/// "24 hours"
std::string hoursText(int64_t seconds);

}  // namespace egpu::allocator
