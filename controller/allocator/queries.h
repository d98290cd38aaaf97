// Questions about decisions: explanations, scores, searches for victims, and what quotas and reservations withhold.
// They assume nothing. Long searches run on a snapshot without the allocator's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "controller/allocator/explanation_cache.h"
#include "controller/allocator/scheduling_request.h"
#include "controller/base/mutex.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/choice/nominated_capacity.h"
#include "controller/scheduler/choice/preempt_together.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/gang.h"
#include "controller/scheduler/queue_order.h"
#include "controller/scheduler/quota/preempt_within.h"
#include "controller/scheduler/score_nodes.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::allocator {

struct AllocatorState;

/// Message: why no device on that node can grow.
std::string reservedNodeText(const std::string& node);

/// Thread-safe.
class Queries {
 public:
  explicit Queries(AllocatorState& state) : state_(state) {}

  /// True if decideTogether() would find a node if these devices were gone. Assumes nothing.
  bool wouldFitTogether(const std::vector<SchedulingRequest>& asks, const scheduler::NodePredicate& suits,
                        const std::vector<std::string>& withoutDevices);
  /// Returns scheduler::scoreNodes() of these nodes for all requests together: one verdict per node, as if these
  /// devices were gone and nominated and reserved capacity were taken. Assumes nothing. Releases the lock in between if
  /// it takes long.
  std::vector<scheduler::NodeVerdict> scoreNodes(const std::vector<SchedulingRequest>& asks,
                                                 std::span<const std::string_view> nodes,
                                                 const std::vector<std::string>& withoutDevices = {},
                                                 scheduler::Judge what = scheduler::Judge::fitAndScore);
  /// Explains why the request does not fit. Releases the lock in between, so a large cluster may change between the
  /// first node and the last. A slow explanation is cached for a while (explanation_cache.h): without `suits` for all
  /// callers, with `suits` for callers with the same `nodes` (see SchedulingRequest::nodes).
  scheduler::Explanation explain(const scheduler::Request& request, const scheduler::NodePredicate& suits = {},
                                 std::string_view nodes = {}, const scheduler::WhyUnsuited& whyUnsuited = {}) const;
  /// Explains, on a snapshot like preempt(), why decideGang() finds no capacity for one of the requests.
  scheduler::Explanation explainGang(const std::vector<SchedulingRequest>& asks,
                                     const std::vector<GangMemberConstraints>& places,
                                     const std::vector<scheduler::TopologyGroup>* within,
                                     const scheduler::WhyUnsuitedForMember& whyUnsuited);
  /// Finds victims for the request: scheduler::preempt() on a snapshot after the nominations that come before the
  /// request. Holds the lock only to copy the cluster; callers share the copy until the cluster changes. Assumes
  /// nothing. enough: returns true to end the search with its result so far.
  scheduler::Preemption preempt(const SchedulingRequest& ask, const scheduler::NodePredicate& suits,
                                const scheduler::IsEvictable& isEvictable, const scheduler::EvictionRankOf& standing,
                                const scheduler::StopCondition& enough = {});
  /// Finds victims so that all requests fit, each on its place, all or none: scheduler::preemptTogether() on such a
  /// snapshot. Respects nominations and reservations as decideGang() does.
  scheduler::PreemptionTogether preemptTogether(const std::vector<SchedulingRequest>& asks,
                                                const std::vector<GangMemberConstraints>& places,
                                                const std::vector<scheduler::TopologyGroup>* within,
                                                const scheduler::IsEvictable& isEvictable,
                                                const scheduler::EvictionRankOf& standing,
                                                const scheduler::StopCondition& enough = {});
  /// Number of snapshots that were copied.
  uint64_t copies() const;
  /// True if `group` is needed: all requests fit, each on its nominated node (one nomination per request) and within
  /// its quotas, once all victims of these nominations are gone, but not if `group` stays. `group` (names of devices)
  /// is one victim, or the victims of one gang, which leave together. False if the requests fit without evictions, or
  /// one needs no capacity.
  bool needs(const std::vector<SchedulingRequest>& asks, const std::vector<v1alpha::Nomination>& nominations,
             const std::vector<std::string>& group);
  /// Names of the victims that leave together with one victim, including it.
  using VictimGroup = std::function<std::vector<std::string>(const std::string& victim)>;
  /// Names of the victims that are needed as in needs(), if each group that is not needed stays before the next one is
  /// tried. Empty: the requests fit without evictions. Nullopt: they need no capacity, or do not fit even without all
  /// victims. Costs about as much as needs() for one group. Calls groupOf without a lock.
  std::optional<std::set<std::string>> neededVictims(const std::vector<SchedulingRequest>& asks,
                                                     const std::vector<v1alpha::Nomination>& nominations,
                                                     const VictimGroup& groupOf);
  /// Decides where the request would fit if the device were gone. Assumes nothing.
  scheduler::Decision decideWithout(const SchedulingRequest& ask, const cache::Gpu& device,
                                    const scheduler::NodePredicate& suits);
  /// Message: nominations and reservations of other claims that withhold capacity from the request. Names a claim only
  /// if it is in the same namespace. Empty if there are none.
  std::string withheldText(const SchedulingRequest& ask) const;
  /// True if a nomination comes before the request in queue order. Its claim may be placed, but is not Bound yet.
  bool hasNominationBefore(const SchedulingRequest& ask) const;
  /// True if the card of that node is nominated to a claim, which may be placed, but is not Bound yet.
  bool isNominated(std::string_view card, std::string_view node) const;
  /// Nodes with a nomination or reservation that withholds capacity from the requests, placed together on one node.
  std::set<std::string, std::less<>> nodesWithheldFrom(const std::vector<SchedulingRequest>& asks) const;
  /// Nodes with a nomination or reservation for any claim other than this one ("namespace/name"; empty = for any
  /// claim).
  std::set<std::string, std::less<>> nodesReservedForOthers(std::string_view claim) const;
  /// Message: the node that is reserved for the claim, or why none is. Empty if the claim has not been pending for
  /// long, or no node can ever hold it.
  std::string reservationText(std::string_view claimUid) const;
  /// Node reservations, each with the name of its claim.
  std::vector<scheduler::ReservedNode> nodeReservations() const;
  /// Capacity that decideResize() leaves to other claims: nominated amounts on the device's cards, and whether its node
  /// is reserved. Assumes nothing.
  struct WithheldFromResize {
    std::vector<scheduler::Holding> cards;
    bool node = false;
    bool operator==(const WithheldFromResize&) const = default;
  };
  WithheldFromResize withheldFromResize(const SchedulingRequest& ask, const cache::Gpu& device) const;
  /// Returns the request with the amounts that the quotas leave to the claim, for explain().
  scheduler::Request withinQuota(const SchedulingRequest& ask);
  /// Returns the excess that Allocator::chargeQuotas() would return. Charges nothing.
  std::optional<scheduler::QuotaExcess> excessWith(const SchedulingRequest& ask, const cache::Gpu& device);
  /// Amounts used of a quota, see QuotaBook::usage(). Empty if there is no such quota.
  scheduler::QuotaUsage quotaUsed(const core::ObjectKey& quota);
  /// Message: the claims that use most of the exceeded quota and, if `releases`, the claims whose release would
  /// suffice. May be empty.
  std::string quotaHolders(const scheduler::QuotaExcess& excess, bool releases);
  /// Version of the namespace's quotas if one of them refuses claims that exceed it, instead of letting them wait.
  std::optional<uint64_t> refusingQuotas(std::string_view namespace_) const;
  /// Copies the cluster, for what-if questions.
  scheduler::Cluster copy() const;

 private:
  /// Copies the nodes of these nominations to `tried` and releases their victims' allocations there. victims: set to
  /// the victims' uids by name. False if the requests need no capacity any more, or do not all fit even then.
  bool releaseAll(const std::vector<SchedulingRequest>& asks, const std::vector<v1alpha::Nomination>& nominations,
                  scheduler::NominatedCapacity& tried, std::unordered_map<std::string, std::string>& victims);

  AllocatorState& state_;
  mutable base::Mutex explaining_;  ///< locked before the allocator's mutex
  mutable ExplanationCache explanations_ EGPU_GUARDED_BY(explaining_);
};

}  // namespace egpu::allocator
