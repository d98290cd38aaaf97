// Moves tried on a cluster: decisions for released claims, and an order of moves. Internal to scheduler/.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/moves.h"
#include "controller/scheduler/preempt.h"

namespace egpu::scheduler {

/// Gives back the cards that the decision took for the device.
void letGo(Cluster& cluster, std::string_view device, const Decision& decision);

/// Decides again for claims that were released, the largest first, and takes their new cards. If one of them has no
/// room, returns nothing, and the cluster is as before.
std::optional<std::vector<Move>> settle(Cluster& cluster, std::vector<Victim> released, const Movers& movers);

/// Whether there is room for the move now, as decide() judges it, once its claim is released. Models and health never
/// change: they were judged when the move was decided.
bool hasRoom(const Cluster& cluster, const Move& move, const Request& request);

/// Puts the moves into an order in which each finds its room; false: there is none, as they wait for each other. A move
/// that is made early takes no other's room, which is its own in the end; but it may be one too many beside a claim
/// whose class limits how many there are. Then no order is found, though there may be one. The cluster is as before
/// when this returns.
bool order(Cluster& cluster, std::vector<Move>& moves, const Movers& movers);

}  // namespace egpu::scheduler
