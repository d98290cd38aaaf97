// The decision: node filter → card filter → node score → card choice. Pure and deterministic: same cluster and request,
// same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/quota/quota.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler {

/// One card of a decision.
struct Placement {
  std::string card;  ///< object name
  std::string uuid;
  Amount granted;
  Amount charged;  ///< ⌈granted ÷ overcommit⌉; what the ledger holds
  /// Where the cluster has the card: spares Cluster::take() the look-up. Tells nothing else, and does not make two
  /// placements different.
  uint32_t hint = CardRef::kNoHint;

  CardRef ref() const { return {card, hint}; }
  bool operator==(const Placement& other) const {
    return card == other.card && uuid == other.uuid && granted == other.granted && charged == other.charged;
  }
};

struct Decision {
  bool fits = false;
  std::string node;
  std::vector<Placement> placements;
  /// Card policy topology on more than 16 fitting cards: the cards may be divided by so much worse than possible
  /// (topology/best_effort.h); 0 = the best division.
  int64_t linkGap = 0;
  std::optional<QuotaExcess> excess{};  ///< it does not fit because of a quota
  std::size_t alternative = 0;          ///< of a claim with several: which one it is for
  bool operator==(const Decision&) const = default;
};

/// Extra node condition for WaitForFirstConsumer (CPU, memory, affinity, taints of the pod); null = all nodes.
using NodePredicate = std::function<bool(std::string_view node)>;

/// Uses the indexes: does not scan all nodes. Without a predicate the cost does not grow with the cluster (beyond the
/// index's logarithm).
Decision decide(const Cluster& cluster, const Request& request, const NodePredicate& suits = {});

}  // namespace egpu::scheduler
