// Places a gang's members one after the other within a group of nodes, as decide() would if there were no others. The
// index is not used, because most of its nodes are in other groups. Nodes are evaluated once for all equal members.
// Internal to scheduler/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/gang.h"
#include "controller/scheduler/score_nodes.h"

namespace egpu::scheduler {

/// Cluster and group must outlive it.
class GroupPlacer {
 public:
  GroupPlacer(Cluster& cluster, const TopologyGroup& group) : cluster_(cluster), group_(group) {}

  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  struct ChosenNode {
    std::size_t place = kNowhere;  ///< position of the node in the group
    Decision decision;
  };
  /// Decides for one member. kind: members of one kind have the same `suits`, called once per node; null = all nodes
  /// suit. open: called for the node about to be chosen; a rejected node is closed to its kind until invalidateNode().
  /// Null = all are open.
  ChosenNode decide(std::size_t kind, Request request, const NodePredicate& suits, const NodePredicate& open);

  /// Marks a node for re-evaluation after an allocation or release there.
  void invalidateNode(std::size_t place);
  /// Invalidates all results after a change of the cluster.
  void invalidateAll();
  /// Number of node evaluations so far.
  std::size_t evaluations() const { return evaluations_; }

 private:
  static constexpr std::size_t kMaxCached = 8;  ///< maximum number of cached results, the latest
  struct CachedVerdicts {
    std::size_t kind = 0;
    Request request;
    std::vector<std::string_view> nodes;  ///< nodes that suit
    std::vector<std::size_t> places;      ///< their positions, ascending
    std::vector<NodeVerdict> verdicts;
    bool judged = false;
    std::vector<std::size_t> touched;  ///< positions of nodes to evaluate again
  };
  CachedVerdicts& verdictsFor(std::size_t kind, const Request& request, const NodePredicate& suits);
  void evaluate(CachedVerdicts& cached, const NodePredicate& suits);
  void judgeTouched(CachedVerdicts& cached);

  Cluster& cluster_;
  const TopologyGroup& group_;
  std::vector<CachedVerdicts> cache_;
  std::size_t next_ = 0;  ///< entry that is replaced next
  std::size_t evaluations_ = 0;
};

}  // namespace egpu::scheduler
