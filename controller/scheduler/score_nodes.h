// Filters and scores a given list of nodes in one pass, for a scheduler that chooses the node itself. Cheaper than one
// decision per node. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/choice/colocate.h"
#include "controller/scheduler/cluster.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/quota/book.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler {

struct NodeVerdict {
  /// True if decideTogether() fits with every request pinned to this node, within the quotas.
  bool fits = false;
  /// Score by the first request's node policy; decide() prefers the higher score, then the lower name. Comparable
  /// within one call only. 0 if the node does not fit or no score was requested.
  int64_t score = 0;
  bool operator==(const NodeVerdict&) const = default;
};

/// Result wanted for each node.
enum class Judge { fit, fitAndScore };

/// Returns one verdict per node, in their order. `claims` has one claim per request, all of one namespace, if `book`
/// counts them; otherwise it is empty. Trial allocations are released: the cluster is unchanged on return.
std::vector<NodeVerdict> scoreNodes(Cluster& cluster, const std::vector<Request>& requests,
                                    std::span<const std::string_view> nodes, const QuotaBook& book = {},
                                    const std::vector<QuotaClaim>& claims = {}, Judge what = Judge::fitAndScore);

/// Returns the position of the node that decide() would choose, or nodes.size() if none fits.
std::size_t highestScore(std::span<const std::string_view> nodes, std::span<const NodeVerdict> verdicts);

/// Decides among these nodes and evaluates no others. The cluster is unchanged on return.
Decision decideAmong(Cluster& cluster, Request request, std::span<const std::string> nodes,
                     const NodePredicate& suits = {});

}  // namespace egpu::scheduler
