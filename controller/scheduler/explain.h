// Why nothing fits, per stage, and the smallest change that would do. Values, for conditions, answers and tables alike.
#pragma once

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

/// A node or a card that fell out.
struct Dropped {
  std::string node;
  std::string card;    ///< object name; empty = the node as a whole
  std::string reason;  ///< its own: "short of free core (need 50%, has 40%)"
  bool operator==(const Dropped&) const = default;
};

/// How many fell out at one stage, why, and who.
struct StageReport {
  std::string stage;  ///< "node", "model", "capacity", "free", …
  int64_t before = 0;
  int64_t after = 0;
  std::vector<std::pair<std::string, int64_t>> reasons = {};  ///< reason → how many, by count descending then text
  std::vector<Dropped> dropped = {};  ///< the first of them, by node and card; before − after says how many there are
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
  struct CardRoom {
    std::string card;
    Amount amount;
    int64_t claims = 0;
    bool operator==(const CardRoom&) const = default;
  };
  Kind kind = Kind::ask;
  Request request;
  std::string node;  ///< ask: where it fits now
  std::vector<CardRoom> rooms;
  int64_t nodeClaims = 0;  ///< release: at least so many of the node's claims
  int64_t cards = 0;
  v1alpha::Card card;  ///< add: the least that serves; an empty model means any
  std::string text;    ///< for people
  bool operator==(const Remedy&) const = default;
};

/// Stages, in this order; a card is counted at the first one it fails. Of nodes: "node", and where the request asks for
/// them "node cpu", "node memory". Of cards: "pinned", "health",
/// "model", "minMemory", "capacity", with quotas "quota", "claims", then "empty" (whole cards) or "core" and "memory". Of nodes again:
/// "cards".
struct Explanation {
  std::vector<StageReport> stages;
  std::vector<Remedy> remedies;  ///< each alone would do; the smaller request first
  std::string smallestChange;    ///< e.g. "gpu-core 40 fits now (node n3); or free 10% of card GPU-… (node n3)"
  /// One line for a condition's message.
  std::string text() const;
  bool operator==(const Explanation&) const = default;
};

/// Called now and then during a long scan, so that the caller can let others have the cluster; it may change
/// meanwhile, and counts made before stay.
using Pause = std::function<void()>;

/// Reason why `suits` rejects a node, as in a StageReport: "with a taint that the claim's class does not tolerate". Null or
/// empty: kUnsuitedForPod.
using WhyUnsuited = std::function<std::string(std::string_view node)>;
inline constexpr std::string_view kUnsuitedForPod = "not suitable for the pod";

/// Why decide() found nothing; of a request that fits, what its stages let through. Scans the cluster; called once per
/// change of the answer, not per decision. At most `names` of those who fell out are named per stage.
Explanation explain(const Cluster& cluster, const Request& request, const NodePredicate& suits = {},
                    std::size_t names = 0, const Pause& pause = {}, const WhyUnsuited& whyUnsuited = {});

}  // namespace egpu::scheduler
