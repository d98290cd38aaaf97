// Decides gangs: claims that are useful only together, each on a node of its own choice. All are placed, or none. Pure.
//
// Members are placed one after the other, each by decide() with the allocations of the members before it: in their
// order or, if one then fits nowhere, the largest first. No other order is tried. So a gang with different requests, or
// with pods with different constraints, can be reported as not fitting although another order would fit. If all members
// request the same whole cards, or the same share of one card, the order does not matter (except for card policy
// static). Members that share a pod are consecutive. They are placed on the best node for the first of them that can
// hold them all.
//
// Example: a gang of three, each for two whole cards, with binpack, on nodes of two cards:
//
//   n0 … n3, all empty                                                  n0, n1, n2
//   one card of n2 in use                                               n0, n1, n3
//   one card of n2 and of n3 in use                                     nothing: member 2 fits nowhere, two do
//   as before, with an empty n4                                         n0, n1, n4
//   as before, within one rack: a has n0 n1 n2, b has n3 n4             nothing: member 2 fits nowhere in a, two do
//
// Victims for a gang that does not fit: choice/preempt_together.h.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/quota/book.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler {

struct GangMember {
  Request request;                    ///< includes the CPU and memory of its pod, which count for later members
  NodePredicate suits{};              ///< constraints of its pod on nodes; null = any
  std::optional<QuotaClaim> claim{};  ///< set if the book counts it; all members have the same namespace
  /// True if the pod fits beside the pods of the members placed on the node before (their positions). Covers the pods'
  /// constraints that the cluster does not track. Called for nodes that suit; null = always true.
  std::function<bool(std::string_view node, std::span<const std::size_t> placed)> hasCapacity{};
  /// An earlier member that shares the pod: this member must use its node. The earlier member has no `with` itself.
  std::optional<std::size_t> with{};
  /// Members of one kind have equal `suits` and `hasCapacity`, and are evaluated once. nullopt: members without these
  /// predicates share one kind; each other member has its own.
  std::optional<std::size_t> kind{};
};

/// Nodes with the same value of a label.
struct TopologyGroup {
  std::string value;
  std::vector<std::string> nodes;
};

/// Why the gang does not fit, from the try that placed most members.
struct GangShort {
  std::size_t member = 0;               ///< first member that fits nowhere: position in the gang
  std::size_t fit = 0;                  ///< number of members that fit
  std::string group;                    ///< group of that try; empty = no groups
  std::optional<QuotaExcess> excess{};  ///< set if the member fits except for a quota
  bool operator==(const GangShort&) const = default;
};

struct GangDecision {
  std::vector<Decision> decisions;   ///< one per member, in their order; empty = they do not all fit
  std::string group;                 ///< group of all members, if groups were given
  std::optional<GangShort> lacking;  ///< set if and only if `decisions` is empty
};

/// Decides a gang, or reports the member that does not fit.
///
/// `within`: all members are placed in one of these groups. The group with the best node of the first member is tried
/// first, then the others in the given order. Null = anywhere; empty = nowhere.
///
/// Each member is decided within the quotas, as if the members before it had their cards. If a total to be divided
/// exceeds the remaining quotas, the gang does not fit; cards of other models are not tried then.
///
/// `pause` is called between groups, and between members (of different pods) after some thousand evaluated nodes. The
/// cluster can change in it. Trial allocations are released in every pause and before the call returns. After a pause,
/// members keep their cards if they still fit there; from the first one that does not, all are placed again. After
/// several such setbacks there are no more pauses until the end of the try.
///
/// Costs one decision per member. With groups, each group's nodes are evaluated once for all members with equal
/// requests and kind (within quotas, once per member).
GangDecision decideGang(Cluster& cluster, const std::vector<GangMember>& members,
                        const std::vector<TopologyGroup>* within = nullptr, const QuotaBook& book = {},
                        const Pause& pause = {});

/// Reason why a node does not suit a member (by position), as in WhyUnsuited. Null: kUnsuitedForPod.
using WhyUnsuitedForMember = std::function<std::string(std::size_t member, std::string_view node)>;

/// Explains why the member that decideGang() reports as lacking fits nowhere beside the members placed before it. The
/// stages are empty if the gang fits, a quota is exceeded, or there is no group. The cluster is unchanged on return.
Explanation explainGang(Cluster& cluster, const std::vector<GangMember>& members,
                        const std::vector<TopologyGroup>* within = nullptr, const QuotaBook& book = {},
                        const WhyUnsuitedForMember& whyUnsuited = {});

}  // namespace egpu::scheduler
