// Many nodes judged at once, for a scheduler that chooses among them itself: which can hold what a pod's claims ask
// for, and how much the policy likes each. One pass over the nodes named, not a decision for each of them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/choice/together.h"
#include "controller/scheduler/cluster.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/quota/book.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler {

struct NodeVerdict {
  /// decideTogether() with every request pinned to this node would find room, within the quotas.
  bool fits = false;
  /// How much the first request's node policy likes it: of two nodes that decide() could choose, it prefers the one
  /// that is liked more; equal ones go by name. Comparable within one call only. 0 unless it fits and that was asked.
  int64_t liking = 0;
  bool operator==(const NodeVerdict&) const = default;
};

/// What is asked of each node.
enum class Judge { fit, fitAndLiking };

/// One verdict per node, in their order. `claims`: of one namespace, one per request, if `book` counts it; else empty.
/// What is tried is taken of the cluster and given back: it is as before when this returns.
std::vector<NodeVerdict> judge(Cluster& cluster, const std::vector<Request>& requests,
                               std::span<const std::string_view> nodes, const QuotaBook& book = {},
                               const std::vector<QuotaClaim>& claims = {}, Judge what = Judge::fitAndLiking);

/// Of nodes and their verdicts the one that decide() would choose: its position, or how many there are if none fits.
std::size_t likedMost(std::span<const std::string_view> nodes, std::span<const NodeVerdict> verdicts);

/// What decide() would choose of these nodes: a look at each of them, and at no other. The cluster is as before.
Decision decideAmong(Cluster& cluster, Request request, std::span<const std::string> nodes,
                     const NodePredicate& suits = {});

}  // namespace egpu::scheduler
