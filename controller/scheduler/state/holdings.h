// Who holds what: the allocations of a cluster read by device, and a decision written into one. For questions that try things
// on a copy.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/decide.h"

namespace egpu::scheduler {

/// What one device takes of one card, charged, and of that card's node.
struct Holding {
  std::string card;  ///< object name
  Amount charged;
  NodeAmount ofNode;
  bool operator==(const Holding&) const = default;
};

/// By device uid; a device's cards in the order of their node.
using Holdings = std::map<std::string, std::vector<Holding>, std::less<>>;

/// All allocations of cards that are on a node. Costs a scan of the cluster.
Holdings holdingsOf(const Cluster& cluster);
/// Those on one node; empty if there is no such node.
Holdings holdingsOn(const Cluster& cluster, std::string_view node);

/// What all of them take of their node.
NodeAmount nodeAmountOf(const std::vector<Holding>& holdings);

/// Takes what was decided, under that device; what the pod takes of the node goes with the first card.
void hold(Cluster& cluster, std::string_view device, const Decision& decision, NodeAmount ofNode = {});
void hold(Cluster& cluster, std::string_view device, const std::vector<Holding>& holdings);
void release(Cluster& cluster, std::string_view device, const std::vector<Holding>& holdings);

/// By name of the card.
using CardAmounts = std::map<std::string_view, Amount>;
/// Whether a healthy card of the node has more free than these amounts.
bool hasFreeBeside(const Cluster& cluster, std::string_view node, const CardAmounts& amounts);

/// Healthy cards of schedulable nodes of which something is free: all of them, or those of one node.
int64_t freeCards(const Cluster& cluster);
int64_t freeCardsOn(const Cluster& cluster, std::string_view node);

/// What is free of it on the card, and not more than that.
Amount freeUpTo(const Cluster& cluster, std::string_view card, const Amount& wanted);

}  // namespace egpu::scheduler
