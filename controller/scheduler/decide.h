// The decision: node filter → card filter → node score → card choice. Pure and deterministic: same cluster and request,
// same bytes.
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

/// One change after which the request fits, in a form that can be applied.
struct Remedy {
  enum class Kind {
    ask,      ///< ask for `request` instead: it fits now
    release,  ///< free `rooms` on `node`
    add,      ///< add `cards` empty cards like `card` to `node`, or, if that is empty, on one new node
  };
  /// So much (charged) of one card, and at least so many of its claims.
  struct Room {
    std::string card;
    Amount amount;
    int64_t claims = 0;
    bool operator==(const Room&) const = default;
  };
  Kind kind = Kind::ask;
  Request request;
  std::string node;  ///< ask: where it fits now
  std::vector<Room> rooms;
  int64_t nodeClaims = 0;  ///< release: at least so many of the node's claims
  int64_t cards = 0;
  v1alpha::Card card;  ///< add: the least that serves; an empty model means any
  std::string text;    ///< for people
  bool operator==(const Remedy&) const = default;
};

/// Why nothing fits, and the smallest change that would.
/// Stages, in this order; a card is counted at the first one it fails. Of nodes: "node", and where the request asks for
/// them "node cpu", "node memory". Of cards: "pinned", "health",
/// "model", "minMemory", "capacity", "claims", then "empty" (whole cards) or "core" and "memory". Of nodes again:
/// "cards".
struct Explanation {
  std::vector<StageReport> stages;
  std::vector<Remedy> remedies;  ///< each alone would do; the smaller request first
  std::string smallestChange;    ///< e.g. "gpu-core 40 fits now (node n3); or free 10% of card GPU-… (node n3)"
  /// One line for a condition's message.
  std::string text() const;
  bool operator==(const Explanation&) const = default;
};

struct Decision {
  bool fits = false;
  std::string node;
  std::vector<Placement> placements;
  /// Card policy topology on more than 16 fitting cards: the cards may be divided by so much worse than possible
  /// (topology/best_effort.h); 0 = the best division.
  int64_t linkGap = 0;
  bool operator==(const Decision&) const = default;
};

/// Extra node condition for WaitForFirstConsumer (CPU, memory, affinity, taints of the pod); null = all nodes.
using NodePredicate = std::function<bool(std::string_view node)>;

/// Uses the indexes: does not scan all nodes. Without a predicate the cost does not grow with the cluster (beyond the
/// index's logarithm).
Decision decide(const Cluster& cluster, const Request& request, const NodePredicate& suits = {});

/// Why decide() found nothing. Scans the cluster; called once per change of the answer, not per decision.
Explanation explain(const Cluster& cluster, const Request& request, const NodePredicate& suits = {});

}  // namespace egpu::scheduler
