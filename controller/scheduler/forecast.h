// Counts how many further equal claims fit, for autoscalers and operators.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "controller/scheduler/decide.h"
#include "controller/scheduler/explain.h"

namespace egpu::scheduler {

struct Forecast {
  int64_t count = 0;  ///< number of claims that can be placed one after the other
  bool more = false;  ///< `count` is a lower bound: the limit of decisions was reached, or a claim charges nothing
  /// Counts by model of the cards; several models of one claim are joined as "A|B". The sum is `count`.
  std::map<std::string, int64_t, std::less<>> byModel;
  bool operator==(const Forecast&) const = default;
};

/// Counts exactly as many claims as repeated decisions would place. A claim lives on one node, so nodes are counted
/// independently of each other and of the node policy:
///
///   one card, or whole cards that the card policy takes in any order   by division   O(cards)
///   otherwise                                          by deciding on a copy, at most `limit` times in all
///
/// Needs no lock and does not change the cluster. `pause` is called per node and decision, and can throw to abort.
Forecast forecast(const Cluster& cluster, const Request& request, const NodePredicate& suits = {},
                  int64_t limit = 1'000'000, const Pause& pause = {});

}  // namespace egpu::scheduler
