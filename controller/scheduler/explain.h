// Explains stage by stage why a request fits nowhere, and finds the smallest changes after which it fits. Results are
// values, for conditions, API responses and tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler {

/// A node or card that a stage excluded.
struct Dropped {
  std::string node;
  std::string card;    ///< object name; empty = the whole node
  std::string reason;  ///< with its own amounts: "short of free core (need 50%, has 40%)"
  bool operator==(const Dropped&) const = default;
};

/// Items that one stage excluded: number, reasons, and the first of them by name.
struct StageReport {
  std::string stage;  ///< "node", "model", "capacity", "core", …
  int64_t before = 0;
  int64_t after = 0;
  std::vector<std::pair<std::string, int64_t>> reasons = {};  ///< reason → count, by count descending, then text
  std::vector<Dropped> dropped = {};  ///< first excluded items, by node and card; before − after is the total
  bool operator==(const StageReport&) const = default;
};

/// One change after which the request fits, in a form that can be applied.
struct Remedy {
  enum class Kind {
    ask,      ///< request `request` instead, which fits now
    release,  ///< free `shortages` on `node`
    add,      ///< add `cards` empty cards like `card` to `node`; empty = to one new node
  };
  /// Capacity to release on one card (charged), and the minimum number of claims.
  struct CardCapacity {
    std::string card;
    Amount amount;
    int64_t claims = 0;
    /// Isolation mode of its claims if it is an obstacle: then all of them must leave. Empty = it is not.
    std::string isolation{};
    bool operator==(const CardCapacity&) const = default;
  };
  Kind kind = Kind::ask;
  Request request;
  std::string node;  ///< for `ask`: node on which the request fits now
  std::vector<CardCapacity> shortages;
  int64_t nodeClaims = 0;  ///< for `release`: minimum number of the node's claims to release
  int64_t cards = 0;
  v1alpha::Card card;  ///< for `add`: smallest sufficient card; an empty model = any
  std::string text;    ///< text for people
  bool operator==(const Remedy&) const = default;
};

/// Result of explain(). A card is counted at the first stage that it fails. Stages of nodes: "node" and, if requested,
/// "node cpu", "node memory". Stages of cards: "pinned" (if any), "health", "model", "minMemory", "capacity", "quota"
/// (if any), "isolation" (if it excludes a card), "claims", then "empty" (whole cards) or "core" and "memory". Finally
/// "cards" counts nodes again.
struct Explanation {
  std::vector<StageReport> stages;
  std::vector<Remedy> remedies;  ///< alternatives to each other; smaller requests first
  std::string smallestChange;    ///< e.g. "gpu-core 40 fits now (node n3); or free 10% of card GPU-… (node n3)"
  /// Returns one line for a condition's message.
  std::string text() const;
  /// Returns the number of nodes of the cluster, all of which were read.
  std::size_t nodes() const { return stages.empty() ? 0 : static_cast<std::size_t>(stages.front().before); }
  bool operator==(const Explanation&) const = default;
};

/// Called periodically during a long scan, so that the caller can unlock the cluster. The cluster may change meanwhile;
/// earlier counts are not updated.
using Pause = std::function<void()>;

/// Returns why `suits` rejects a node, for a StageReport: "with a taint that the claim's class does not tolerate". Null
/// or empty: kUnsuitedForPod.
using WhyUnsuited = std::function<std::string(std::string_view node)>;
inline constexpr std::string_view kUnsuitedForPod = "not suitable for the pod";

/// Explains the result of decide(); for a request that fits, shows the nodes and cards that passed. Scans the cluster:
/// call it once per change of the answer. Lists at most `names` excluded items per stage.
Explanation explain(const Cluster& cluster, const Request& request, const NodePredicate& suits = {},
                    std::size_t names = 0, const Pause& pause = {}, const WhyUnsuited& whyUnsuited = {});

}  // namespace egpu::scheduler
