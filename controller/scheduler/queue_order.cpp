#include "controller/scheduler/queue_order.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "controller/scheduler/choice/plan_reservations.h"

namespace egpu::scheduler {
namespace {

using Nodes = std::set<std::string, std::less<>>;

/// Returns the node to reserve; empty = none.
std::string nodeFor(const Cluster& cluster, const PendingRequest& request, const NodePredicate& open, int64_t now,
                    const HeldSince& heldSince, const ReservedNode& own) {
  CurrentReservations before;
  if (!own.node.empty()) before = {{own.node}, own.moves};
  const auto reserved = planReservations(cluster, {{*request.request, open}}, nullptr, {}, now, heldSince, before, 1);
  return reserved.empty() ? std::string() : reserved.front().node;
}

}  // namespace

bool queueLess(const PendingRequest& a, const PendingRequest& b) {
  return std::tie(b.priority, a.since, a.name) < std::tie(a.priority, b.since, b.name);
}

int64_t expectedOfReserved(int64_t seconds, int moves) { return seconds >> std::min(1 + moves / kMovesToHalve, 62); }

std::vector<ReservedNode> reserveNodes(const Cluster& cluster, const std::vector<PendingRequest>& waiting, int64_t now,
                                       const HeldSince& heldSince, const std::vector<ReservedNode>& before,
                                       const ReservationLimits& limits) {
  std::vector<ReservedNode> reserved;
  Nodes taken;
  const std::size_t max = std::min(
      limits.maxNodes, std::max<std::size_t>(1, cluster.gpuNodeCount() / std::max<std::size_t>(1, limits.share)));
  for (const PendingRequest& request : waiting) {
    if (reserved.size() >= max) break;
    if (now - request.since < limits.after) continue;
    const NodePredicate open = [&](std::string_view node) {
      return taken.find(node) == taken.end() && (!request.suits || request.suits(node));
    };
    if (decide(cluster, *request.request, open).fits) continue;
    const auto known =
        std::find_if(before.begin(), before.end(), [&](const ReservedNode& k) { return k.name == request.name; });
    const ReservedNode own = known == before.end() ? ReservedNode() : *known;
    std::string node = nodeFor(cluster, request, open, now, heldSince, own);
    if (node.empty()) continue;
    taken.insert(node);
    const bool moves = !own.node.empty() && own.node != node;
    reserved.push_back({request.name, std::move(node), own.moves + (moves ? 1 : 0)});
  }
  return reserved;
}

}  // namespace egpu::scheduler
