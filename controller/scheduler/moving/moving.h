// Tries moves on a cluster: new decisions for released claims, and the order of moves. Internal to scheduler/.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/moves.h"
#include "controller/scheduler/preempt.h"

namespace egpu::scheduler {

/// Releases the cards that the decision allocated to the device.
void moveTo(Cluster& cluster, std::string_view device, const Decision& decision);

/// Decides again for released claims, the largest first, and allocates their new cards. If one fits nowhere, returns
/// nullopt and restores the cluster.
std::optional<std::vector<Move>> settle(Cluster& cluster, std::vector<Victim> released, const Movers& movers);

/// True if the move fits now, by the rules of decide(), after its claim is released. Models and health are not checked
/// again: they do not change while a plan is made.
bool hasCapacity(const Cluster& cluster, const Move& move, const Request& request);

/// Orders the moves so that each has the capacity that it needs. Returns false if they block each other. An early move
/// never takes the capacity of a later one, because that capacity is its own in the end. But it can reach the limit of
/// claims of another claim's class; then no order is found, although one may exist. The cluster is unchanged on return.
bool order(Cluster& cluster, std::vector<Move>& moves, const Movers& movers);

}  // namespace egpu::scheduler
