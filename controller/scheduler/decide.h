// The placement decision: node filter → card filter → node score → card choice. Pure and deterministic: equal cluster
// and request give equal bytes.
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
  Amount charged;  ///< ⌈granted ÷ overcommit⌉, the amount in the ledger
  /// Position of the card in the cluster: saves the look-up in Cluster::take(). Ignored by comparisons.
  uint32_t hint = CardRef::kNoHint;
  std::string isolation{};  ///< isolation mode of the share; empty = none, or a whole card
  MigInstances mig{};       ///< its MIG instances, with the driver's name of the profile; none unless requested

  CardRef ref() const { return {card, hint}; }
  bool operator==(const Placement& other) const {
    return card == other.card && uuid == other.uuid && granted == other.granted && charged == other.charged &&
           isolation == other.isolation && mig == other.mig;
  }
};

struct Decision {
  bool fits = false;
  std::string node;
  std::vector<Placement> placements;
  /// Maximum distance of the link score from the best division. Nonzero only for card policy topology with more than 16
  /// fitting cards (topology/best_effort.h).
  int64_t linkGap = 0;
  std::optional<QuotaExcess> excess{};  ///< set if a quota is the reason that it does not fit
  std::size_t alternative = 0;          ///< index of the alternative that was decided, for claims with several
  bool operator==(const Decision&) const = default;
};

/// Additional condition on nodes for WaitForFirstConsumer (CPU, memory, affinity, taints of the pod); null = all nodes.
using NodePredicate = std::function<bool(std::string_view node)>;

/// Decides with the indexes and does not scan all nodes. Without a predicate the cost is logarithmic in the number of
/// nodes.
Decision decide(const Cluster& cluster, const Request& request, const NodePredicate& suits = {});

}  // namespace egpu::scheduler
