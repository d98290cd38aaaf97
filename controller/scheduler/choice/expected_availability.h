// Predicts when a node has capacity for a request that fits nowhere now. Jobs that have run for long run longer: each
// holder is expected to stay as long again as it has been there. Internal to scheduler/.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/queue_order.h"
#include "controller/scheduler/request.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

/// Prediction for one request. The constructor's arguments must outlive it.
class ExpectedAvailability {
 public:
  ExpectedAvailability(const Cluster::State& state, const Request& request, int64_t now, const HeldSince& heldSince);

  /// Returns the expected number of seconds; 0 = now. nullopt: never, as far as is known.
  std::optional<int64_t> on(NodeId id);

 private:
  bool mayServe(CardId id);
  int64_t ageOf(std::string_view device) const;
  int64_t secondsUntilCardFits(CardId id);
  /// Returns the seconds until a share is free, if the youngest holders leave first.
  int64_t secondsUntilShareFits(const CardRecord& card, CardId id, const Need& need) const;
  /// Returns the seconds until CPU, memory and the number of claims allow the request. Pods without claims are expected
  /// to stay, because their age is unknown.
  std::optional<int64_t> secondsUntilNodeFits(NodeId id) const;

  const Cluster::State& state_;
  const Request& request_;
  Needs needs_;
  const int64_t now_;
  const HeldSince& heldSince_;
  bool inOnePiece_ = false;  ///< all cards must be empty at once: a total, or fixed sets
};

}  // namespace egpu::scheduler
