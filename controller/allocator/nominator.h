// Nominations: capacity that preemptors wait for while their victims leave (status.nominated of their claims).
//
// Nominated capacity is allocated temporarily while requests are decided that it blocks: first the part that is free,
// and more as victims leave. Nominated or reserved quota counts as used for them. The owner, and requests that come
// before it, ignore both. Nominations are stored in the claims' statuses, so the next leader knows them, too.
//
// A nomination blocks requests of lower priority, and requests of equal priority, even older ones, unless they have a
// nomination of their own; then queue order decides.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/allocator/quota/quota_accounting.h"
#include "controller/allocator/scheduling_request.h"
#include "controller/allocator/state/cluster_state.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/cluster.h"
#include "controller/scheduler/gang.h"
#include "controller/scheduler/quota/book.h"

namespace egpu::allocator {

/// Nomination of a claim.
struct NominatedClaim {
  scheduler::PendingRequest owner;
  v1alpha::Nomination nomination;
  std::string className{};  ///< class of the claim; empty if not known
  std::string isolation{};  ///< class parameter `isolation` of the claim's class; empty if not known
};

/// Allocates the free part of the nominated capacity under `key`, and returns the cards. While claims with another
/// isolation mode are on a card, this is all its free capacity: a further such claim would keep the owner off the card.
std::vector<std::string> takeNominated(scheduler::Cluster& cluster, const std::string& key,
                                       const NominatedClaim& nominated);

/// Not thread-safe. All references must outlive it.
class Nominator {
 public:
  /// Temporary allocations: card and uid of each.
  using Hold = std::vector<std::pair<std::string, std::string>>;

  Nominator(const cache::Stores& stores, ClusterState& state, QuotaAccounting& quotas)
      : stores_(stores), state_(state), quotas_(quotas) {}

  /// Uid under which a claim's nominated capacity is allocated temporarily.
  static constexpr std::string_view kNominated = "nominated/";
  static std::string nominatedKey(std::string_view claimUid) { return std::string(kNominated).append(claimUid); }

  /// Reads the claim's nomination. isGone: the claim is deleted, whatever the store has.
  void refresh(const cache::Claim& claim, bool isGone);
  /// Null if the claim has no nomination.
  const NominatedClaim* find(std::string_view claimUid) const;

  /// True if the nomination withholds capacity from the requests.
  bool blocks(const std::vector<SchedulingRequest>& asks, const std::string& ownerUid,
              const NominatedClaim& nominated) const;
  /// Calls visit(uid of the owner, nomination) for each nomination that blocks the requests.
  template <class Visit>
  void eachBlocking(const std::vector<SchedulingRequest>& asks, const Visit& visit) const {
    for (const auto& [uid, nominated] : nominated_)
      if (blocks(asks, uid, nominated)) visit(uid, nominated);
  }
  /// True if a nomination comes before the request in queue order. Its claim may be placed, but is not Bound yet.
  bool hasBefore(const SchedulingRequest& ask) const;
  /// True if the card of that node is nominated to a claim, which may be placed, but is not Bound yet.
  bool isNominated(std::string_view card, std::string_view node) const;
  /// Calls visit(owner, node) for each nomination of a claim that waits for it.
  template <class Visit>
  void eachPending(const Visit& visit) const {
    for (const auto& [uid, nominated] : nominated_)
      if (!state_.isPlaced(uid)) visit(nominated.owner, nominated.nomination.nodeName);
  }

  /// Sorted names of nodes whose free capacity is nominated to other claims in full, so that none of the requests fits
  /// there. Allocating a large gang's capacity for each decision would cost more than the decision.
  std::vector<std::string> filledNodes(const std::vector<SchedulingRequest>& asks) const;
  /// Allocates the nominated capacity and quota that the requests must leave free, until release(). filled: nodes that
  /// are skipped because they are closed to the requests anyway.
  Hold hold(const std::vector<SchedulingRequest>& asks, const std::vector<std::string>& filled = {});
  void release(const Hold& held);

  /// Quota that is nominated to, or reserved for, claims that come before the requests, which are of one namespace.
  /// victimsGone: the victims are gone already.
  std::vector<scheduler::QuotaHold> quotaHolds(const std::vector<SchedulingRequest>& asks, bool victimsGone) const;
  /// Quotas of the requests' namespace after the nominations that block the requests are carried out.
  scheduler::QuotaBook quotasAfter(const std::vector<SchedulingRequest>& asks) const;
  /// Returns `members`, each pinned to its nominated node; empty if one has no nomination or is pinned elsewhere.
  std::vector<scheduler::GangMember> pinToNominated(const std::vector<SchedulingRequest>& asks,
                                                    std::vector<scheduler::GangMember> members) const;

  /// True if a nomination changed or ended since takeFreed().
  bool hasFreed() const { return hasFreed_; }
  bool takeFreed() { return std::exchange(hasFreed_, false); }

 private:
  /// True if the nomination comes before the request in queue order.
  bool precedes(const std::string& ownerUid, const NominatedClaim& nominated, const SchedulingRequest& ask) const;
  /// Creation time for queue order: that of the oldest claim of the same gang, PodGroup or pods.
  int64_t sinceOf(const cache::Claim& claim) const;

  const cache::Stores& stores_;
  ClusterState& state_;
  QuotaAccounting& quotas_;
  std::map<std::string, NominatedClaim, std::less<>> nominated_;  ///< by claim uid
  bool hasFreed_ = false;
};

}  // namespace egpu::allocator
