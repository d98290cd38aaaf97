// A gang: claims that are of use together only, each on a node of its own choice. All are decided, or none.
//
// Members are placed one after the other, each as decide() would with what those before it took: in their order, or, if one
// fits nowhere then, the largest first. No other order is tried: a gang of unlike members, or of pods with unlike conditions,
// may be told that it doesn't fit where a cleverer order would do. Where all ask for the same whole cards, or for the same
// share of one card, any order is as good as another (card policy static aside). Members that one pod uses follow each other, on
// the first node, of those that the first of them likes, which has room for all of them.
//
// A gang of three, each for two whole cards, by binpack, on nodes of two cards:
//
//   n0 … n3, all empty                                                  n0, n1, n2
//   one card of n2 taken                                                n0, n1, n3
//   one card of n2 and of n3 taken                                      nothing: member 2 fits nowhere, two do
//   that, and n4 empty                                                  n0, n1, n4
//   that, all in one rack: a has n0 n1 n2, b has n3 n4                  nothing: member 2 fits nowhere in a, two do
//
// Who would have to go for a gang that does not fit: choice/preempt_together.h. Pure.
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
  Request request;                    ///< what its pod takes of a node counts for the members after it, too
  NodePredicate suits{};              ///< what its pod asks of a node; null = any
  std::optional<QuotaClaim> claim{};  ///< if the book counts it; all of one namespace
  /// Whether its pod has room beside those of the members that were placed on the node before it (their positions): of what the
  /// cluster knows nothing of. Asked of nodes that suit; null = it has.
  std::function<bool(std::string_view node, std::span<const std::size_t> placed)> hasRoom{};
  /// One that comes before it, on whose node it has to be: one pod uses both. That one has none itself.
  std::optional<std::size_t> with{};
  /// Members of one kind have the same `suits` and `hasRoom`, and are looked at once. Nothing: one without these is of the kind of all
  /// such, another of its own.
  std::optional<std::size_t> kind{};
};

/// Nodes with one value of a label.
struct TopologyGroup {
  std::string value;
  std::vector<std::string> nodes;
};

/// Why not all fit, of the try that got furthest.
struct GangShort {
  std::size_t member = 0;               ///< the first that fits nowhere: position in the gang
  std::size_t fit = 0;                  ///< how many were placed before it
  std::string group;                    ///< in which group; empty = there are none to keep to
  std::optional<QuotaExcess> excess{};  ///< it would fit but for a quota
  bool operator==(const GangShort&) const = default;
};

struct GangDecision {
  std::vector<Decision> decisions;   ///< one per member, in their order; empty: not all fit
  std::string group;                 ///< where they are, if they are kept together
  std::optional<GangShort> lacking;  ///< set if there are no decisions
};

/// `within`: all members go into one of these groups: the one with the node that the first member would have by itself is
/// tried first, then the others in the order given. Null: anywhere; empty: nowhere.
///
/// Each member is within the quotas as if those before it had their cards already. If a total that is to be divided comes to
/// more than the quotas leave, the gang does not fit; cards of other models are not looked for then.
///
/// `pause` is called between two groups, and between two members (of different pods) once some thousand nodes were looked at; the
/// cluster may change in it. What is tried is taken of the cluster and given back: it is as before when this returns, and in every
/// pause. Who was placed before a pause keeps his place if he still fits there; from the first who does not, they are placed anew. If
/// that happens time and again, there is no pause any more until all are tried. Costs a decision per member; with groups, a look at each
/// group's nodes for all members that ask the same and are of one kind (within quotas, for each member).
GangDecision decideGang(Cluster& cluster, const std::vector<GangMember>& members,
                        const std::vector<TopologyGroup>* within = nullptr, const QuotaBook& book = {},
                        const Pause& pause = {});

/// Why a node is none for a member (by position): as WhyUnsuited. Null: kUnsuitedForPod.
using WhyUnsuitedForMember = std::function<std::string(std::size_t member, std::string_view node)>;

/// Explains why the member that decideGang() names as lacking fits nowhere beside the members placed before it. No stages: the
/// gang fits, a quota is exceeded, or there is no group. The cluster is as before when this returns.
Explanation explainGang(Cluster& cluster, const std::vector<GangMember>& members,
                        const std::vector<TopologyGroup>* within = nullptr, const QuotaBook& book = {},
                        const WhyUnsuitedForMember& whyUnsuited = {});

}  // namespace egpu::scheduler
