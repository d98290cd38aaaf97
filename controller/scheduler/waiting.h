// Those who wait for room: in which order they are tried, and which nodes are kept for who has waited long.
//
// Order: the higher priority first, then who has waited longer, then the lower name. Whoever fits may go past those who
// don't, so small requests use what large ones can't. A large one would never see a whole node free that way. So who
// has waited for `after` gets a node kept: nobody who comes later in the order is placed there until it is served.
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

/// Who waits. Times are seconds of any one clock.
struct Waiter {
  std::string name;
  int64_t priority = 0;
  int64_t since = 0;
  const Request* request = nullptr;  ///< not null; outlives this
  NodePredicate suits{};             ///< what its pod asks of a node; null = any
};

/// Whether `a` is tried before `b`.
bool comesBefore(const Waiter& a, const Waiter& b);

/// A node for one that waits.
struct Kept {
  std::string name;  ///< whose
  std::string node;
  int moves = 0;  ///< how often another one was kept for it before
  bool operator==(const Kept&) const = default;
};

struct Keeping {
  int64_t after = 600;     ///< seconds that one has waited before a node is kept for it
  std::size_t most = 16;   ///< nodes kept at once, at most, and …
  std::size_t share = 50;  ///< … one of so many nodes that have cards; one at least
  /// For one gang, the first that has waited for so long, at most one of so many nodes; one at least: choice/keep_together.h.
  std::size_t gangShare = 2;
  /// In a cluster of fewer nodes with cards than `share`, a node kept for a claim may withhold so many percent of the
  /// free cards at most; 100 = no limit. ClusterView alone asks for it.
  int64_t freeCardPercent = 10;
};

/// Since when the holder of a device uid has it. Who is not known to have held it for long is not expected to.
using HeldSince = std::function<int64_t(std::string_view device)>;
/// Whether the holder of a device uid shows no sign of ending. Null: none is known to.
using HolderLasts = std::function<bool(std::string_view device)>;

/// The nodes to keep now, for the first in the order that have waited for long and fit nowhere. `waiting` is in that
/// order; `before` is what was kept until now.
///
/// A node is chosen by when it may be free enough (choice/expected_room.h). A node that is kept already stays, unless another one
/// is expected in half the time, after eight such moves in a quarter, after sixteen in an eighth, and so on: where many come and go,
/// one that has just begun is always expected soon, and what is kept would never stay. Equal ones go by name. So what is kept is bounded by `most` and `share`, and
/// ends when its owner is served, goes, or no longer comes first.
///
/// Costs a scan of the cluster for each node that is kept. For replays, which know all who wait; the controller looks for one claim
/// at a time, by the same choice/keep_together.h (cache/kept_nodes.cpp).
std::vector<Kept> keepNodes(const Cluster& cluster, const std::vector<Waiter>& waiting, int64_t now,
                            const HeldSince& heldSince, const std::vector<Kept>& before = {},
                            const Keeping& keeping = {});

constexpr int kMovesToHalve = 8;
/// What counts of the seconds until a node is expected that was kept before, after so many moves: a half, and half of that for each
/// kMovesToHalve of them.
int64_t expectedOfKept(int64_t seconds, int moves);

}  // namespace egpu::scheduler
