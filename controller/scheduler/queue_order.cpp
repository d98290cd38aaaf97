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
std::string nodeFor(const Cluster& cluster, const PendingRequest& who, const NodePredicate& open, int64_t now,
                    const HeldSince& heldSince, const Kept& own) {
  KeptBefore before;
  if (!own.node.empty()) before = {{own.node}, own.moves};
  const auto kept = planReservations(cluster, {{*who.request, open}}, nullptr, {}, now, heldSince, before, 1);
  return kept.empty() ? std::string() : kept.front().node;
}

}  // namespace

bool queueLess(const PendingRequest& a, const PendingRequest& b) {
  return std::tie(b.priority, a.since, a.name) < std::tie(a.priority, b.since, b.name);
}

int64_t expectedOfKept(int64_t seconds, int moves) { return seconds >> std::min(1 + moves / kMovesToHalve, 62); }

std::vector<Kept> keepNodes(const Cluster& cluster, const std::vector<PendingRequest>& waiting, int64_t now,
                            const HeldSince& heldSince, const std::vector<Kept>& before, const Keeping& keeping) {
  std::vector<Kept> kept;
  Nodes taken;
  const std::size_t most = std::min(
      keeping.most, std::max<std::size_t>(1, cluster.gpuNodeCount() / std::max<std::size_t>(1, keeping.share)));
  for (const PendingRequest& who : waiting) {
    if (kept.size() >= most) break;
    if (now - who.since < keeping.after) continue;
    const NodePredicate open = [&](std::string_view node) {
      return taken.find(node) == taken.end() && (!who.suits || who.suits(node));
    };
    if (decide(cluster, *who.request, open).fits) continue;
    const auto known = std::find_if(before.begin(), before.end(), [&](const Kept& k) { return k.name == who.name; });
    const Kept own = known == before.end() ? Kept() : *known;
    std::string node = nodeFor(cluster, who, open, now, heldSince, own);
    if (node.empty()) continue;
    taken.insert(node);
    const bool moves = !own.node.empty() && own.node != node;
    kept.push_back({who.name, std::move(node), own.moves + (moves ? 1 : 0)});
  }
  return kept;
}

}  // namespace egpu::scheduler
