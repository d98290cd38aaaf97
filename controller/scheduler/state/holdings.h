// Allocations of a cluster by device, and conversion of decisions to allocations. For questions that are tried on a
// copy.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/decide.h"

namespace egpu::scheduler {

/// Allocation of one device on one card, as charged, and on that card's node.
struct Holding {
  std::string card;  ///< object name
  Amount charged;
  NodeAmount ofNode;
  std::string isolation{};  ///< isolation mode of the card's shares; empty = none
  bool operator==(const Holding&) const = default;
};

/// Allocations by device uid; a device's cards are in the order of their node.
using Holdings = std::map<std::string, std::vector<Holding>, std::less<>>;

/// Returns all allocations on cards that belong to a node. Scans the cluster.
Holdings holdingsOf(const Cluster& cluster);
/// Returns the allocations on one node; empty for an unknown node.
Holdings holdingsOn(const Cluster& cluster, std::string_view node);

/// Returns the sum of their node amounts.
NodeAmount nodeAmountOf(const std::vector<Holding>& holdings);

/// Allocates the decision to the device; the pod's amounts on the node are recorded with the first card. An empty card
/// gets the isolation mode of its first share, here and below.
void hold(Cluster& cluster, std::string_view device, const Decision& decision, NodeAmount ofNode = {});
void hold(Cluster& cluster, std::string_view device, const std::vector<Holding>& holdings);
void release(Cluster& cluster, std::string_view device, const std::vector<Holding>& holdings);

/// Amounts by name of the card.
using CardAmounts = std::map<std::string_view, Amount>;
/// True if a healthy card of the node has more free capacity than these amounts.
bool hasFreeBeside(const Cluster& cluster, std::string_view node, const CardAmounts& amounts);

/// Number of healthy cards of schedulable nodes that have free core and free memory: on all nodes, or on one.
int64_t freeCards(const Cluster& cluster);
int64_t freeCardsOn(const Cluster& cluster, std::string_view node);

/// Returns the free part of `wanted` on the card.
Amount freeUpTo(const Cluster& cluster, std::string_view card, const Amount& wanted);

}  // namespace egpu::scheduler
