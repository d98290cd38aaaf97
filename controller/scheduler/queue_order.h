// Queue order of pending requests, and reservations of nodes for requests that have waited for long.
//
// Order: higher priority first, then the older request, then the lower name. Requests that fit can overtake others, so
// that small requests use the capacity that large ones cannot use. Large requests would then never find a whole free
// node. Therefore a node is reserved for a request that has waited for `after` seconds: no later request is placed
// there until it is served.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler {

/// A pending request. Times are seconds of any one clock.
struct PendingRequest {
  std::string name;
  int64_t priority = 0;
  int64_t since = 0;
  const Request* request = nullptr;  ///< not null; outlives this
  NodePredicate suits{};             ///< constraints of its pod on nodes; null = any
};

/// True if `a` is tried before `b`.
bool queueLess(const PendingRequest& a, const PendingRequest& b);

/// A reservation of a node.
struct ReservedNode {
  std::string name;  ///< name of the pending request
  std::string node;
  int moves = 0;  ///< number of earlier changes of its node
  bool operator==(const ReservedNode&) const = default;
};

struct ReservationLimits {
  int64_t after = 600;        ///< seconds of waiting before a node is reserved
  std::size_t maxNodes = 16;  ///< maximum number of reserved nodes, and …
  std::size_t share = 50;     ///< … at most one in `share` nodes with cards, but at least one
  /// For one gang, the first in queue order that has waited for `after`: at most one in `gangShare` nodes with cards,
  /// but at least one (choice/plan_reservations.h).
  std::size_t gangShare = 2;
  /// In a cluster with fewer than `share` nodes with cards, the maximum percentage of the free cards that a claim's
  /// reservation can withhold; 100 = no limit. Used by the allocator only.
  int64_t freeCardPercent = 10;
  /// Seconds after which a reservation of nodes or quota expires unless its owner renews it, by being tried again.
  /// Longer than any backoff between two attempts of a claim. Used by the allocator only.
  int64_t ttl = 600;
  /// Seconds without renewal after which the owner is asked to renew.
  int64_t renewAfter() const { return ttl / 5; }
};

/// Returns when the holder of a device uid got it. Recent holders are expected to stay only briefly.
using HeldSince = std::function<int64_t(std::string_view device)>;
/// True if the holder of a device uid shows no sign of ending. Null: false for all.
using HolderLasts = std::function<bool(std::string_view device)>;

/// Returns the reservations for now: for the first requests in queue order that have waited for long and fit nowhere.
/// `waiting` is in queue order; `before` has the present reservations.
///
/// The node is the one that is expected to be free first (choice/expected_availability.h); ties: lower name. A reserved
/// node is kept unless another one is expected in half the time, after eight such moves in a quarter, after sixteen in
/// an eighth, and so on. Otherwise reservations would never settle, because in a busy cluster some recent holder is
/// always expected to end soon. Reservations are bounded by `maxNodes` and `share`. They end when the owner is served,
/// leaves, or is no longer among the first.
///
/// Costs a scan of the cluster for each reservation. For replays, which know all pending requests. The controller
/// searches for one claim at a time, with the same choice/plan_reservations.h (allocator/reservation_search.h).
std::vector<ReservedNode> reserveNodes(const Cluster& cluster, const std::vector<PendingRequest>& waiting, int64_t now,
                                       const HeldSince& heldSince, const std::vector<ReservedNode>& before = {},
                                       const ReservationLimits& limits = {});

constexpr int kMovesToHalve = 8;
/// Weighs the expected seconds of a reserved node: a half, and half of that again for each kMovesToHalve moves.
int64_t expectedOfReserved(int64_t seconds, int moves);

}  // namespace egpu::scheduler
