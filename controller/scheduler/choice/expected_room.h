// When a node may have room for a request that fits nowhere now. Jobs that have run for long run longer: what one of them holds is
// expected to come free after as long again as it has been held. Internal to scheduler/.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/request.h"
#include "controller/scheduler/state/state.h"
#include "controller/scheduler/waiting.h"

namespace egpu::scheduler {

/// Of one request. What it is given must outlive it.
class ExpectedRoom {
 public:
  ExpectedRoom(const Cluster::State& state, const Request& request, int64_t now, const HeldSince& heldSince);

  /// In how many seconds; 0 = now. Nothing: never, as far as is known.
  std::optional<int64_t> on(NodeId id);

 private:
  bool mayServe(CardId id);
  int64_t ageOf(std::string_view device) const;
  int64_t cardFree(CardId id);
  /// The youngest holders go first, until there is room.
  int64_t partFree(const CardRecord& card, CardId id, const Need& need) const;
  /// The same for CPU, memory and the number of claims. Of pods without claims nobody says since when they are there:
  /// they are taken to stay.
  std::optional<int64_t> nodeFree(NodeId id) const;

  const Cluster::State& state_;
  const Request& request_;
  Needs needs_;
  const int64_t now_;
  const HeldSince& heldSince_;
  bool inOnePiece_ = false;
};

}  // namespace egpu::scheduler
