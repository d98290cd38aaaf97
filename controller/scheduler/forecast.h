// How many more claims like this one fit: what an autoscaler or an operator wants to know before the queue grows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "controller/scheduler/decide.h"
#include "controller/scheduler/explain.h"

namespace egpu::scheduler {

struct Forecast {
  int64_t count = 0;  ///< claims that would be placed, one after the other, until none fits
  bool more = false;  ///< at least `count`: the limit of decisions was reached, or a claim charges nothing
  /// By the model of the cards that each would get, several models of one claim as "A|B"; adds up to count.
  std::map<std::string, int64_t, std::less<>> byModel;
  bool operator==(const Forecast&) const = default;
};

/// Exactly as many as deciding and taking again and again would place. A claim lives on one node, so nodes are counted
/// each for itself, whatever order the node policy would visit them in:
///
///   one card, or whole ones that the card policy takes whichever they are   by division   O(cards)
///   otherwise                                          by deciding on a copy, at most `limit` times in all
///
/// Needs no lock and leaves the cluster as it is. `pause` is called per node and decision, and may throw to give up.
Forecast forecast(const Cluster& cluster, const Request& request, const NodePredicate& suits = {},
                  int64_t limit = 1'000'000, const Pause& pause = {});

}  // namespace egpu::scheduler
