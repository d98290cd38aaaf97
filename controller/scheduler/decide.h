// The decision: node filter → card filter → node score → card choice. Pure and deterministic: same cluster and request, same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler {

/// One card of a decision.
struct Placement {
  std::string card;  ///< object name
  std::string uuid;
  Amount granted;
  Amount charged;  ///< ⌈granted ÷ overcommit⌉; what the ledger holds
  bool operator==(const Placement&) const = default;
};

/// How many fell out at one stage and why.
struct StageReport {
  std::string stage;  ///< "node", "model", "capacity", "free", …
  int64_t before = 0;
  int64_t after = 0;
  std::vector<std::pair<std::string, int64_t>> reasons;  ///< reason → how many, by count descending then text
  bool operator==(const StageReport&) const = default;
};

/// Why nothing fits, and the smallest change that would.
struct Explanation {
  std::vector<StageReport> stages;
  std::string smallestChange;  ///< e.g. "60% of a card fits now (node n3); or free 20% of card GPU-…"
  /// One line for a condition's message.
  std::string text() const;
};

struct Decision {
  bool fits = false;
  std::string node;
  std::vector<Placement> placements;
  bool operator==(const Decision&) const = default;
};

/// Extra node condition for WaitForFirstConsumer (CPU, memory, affinity, taints of the pod); null = all nodes.
using NodePredicate = std::function<bool(std::string_view node)>;

/// Uses the indexes: does not scan all nodes. Without a predicate the cost does not grow with the cluster (beyond the index's logarithm).
Decision decide(const Cluster& cluster, const Request& request, const NodePredicate& suits = {});

/// Why decide() found nothing. Scans the cluster; called once per change of the answer, not per decision.
Explanation explain(const Cluster& cluster, const Request& request, const NodePredicate& suits = {});

}  // namespace egpu::scheduler
