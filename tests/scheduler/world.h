// A cluster as plain maps and a decision as plain loops: Cluster and decide() must agree with them. Deliberately slow
// and simple; shares no code with the scheduler except the value types.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/decide.h"

namespace egpu::scheduler::testing {

inline constexpr int64_t kMi = int64_t{1} << 20;
inline constexpr int64_t kGi = int64_t{1} << 30;

CardInfo makeCard(const std::string& name, const std::string& node, int64_t index, int64_t memory = 32 * kGi,
                  const std::string& model = "V100");

struct PlainCard {
  CardInfo info;
  std::map<std::string, Amount> allocations;
  std::map<std::string, NodeAmount> ofNode;  ///< CPU and memory of the node that those allocations use, if any
  std::string isolation;                     ///< mode of the allocations; empty = none

  Amount used() const;
};

struct PlainNode {
  NodeInfo info;
  std::map<std::string, NodeAmount> allocations;  ///< usage by pods without cards
};

struct World {
  std::map<std::string, PlainNode> nodes;
  std::map<std::string, PlainCard> cards;

  /// The operations of Cluster.
  void upsertCard(const CardInfo& info) { cards[info.name].info = info; }
  void upsertNode(const NodeInfo& info) { nodes[info.name].info = info; }
  bool take(const std::string& card, const std::string& device, Amount charged, NodeAmount ofNode = {},
            const std::string& isolation = {});
  void giveBack(const std::string& card, const std::string& device);
  bool takeOfNode(const std::string& node, const std::string& uid, NodeAmount amount);
  void giveBackOfNode(const std::string& node, const std::string& uid);
  /// Returns the usage of each node that has a Node object or a card.
  std::map<std::string, NodeAmount> nodesUsed() const;

  Decision decide(const Request& request, const NodePredicate& suits = {}) const;
  /// Builds a new cluster from the current contents.
  Cluster build() const;
};

using Random = std::mt19937_64;
/// Returns a number uniform in [low, high]; unlike std's distributions it is equal on every platform.
int64_t pick(Random& random, int64_t low, int64_t high);

/// Returns a request for `cards` whole cards.
Request whole(int64_t cards);

/// Applies the placements of a decision.
void commit(Cluster& cluster, const Decision& decision, const std::string& device, NodeAmount ofNode = {});

}  // namespace egpu::scheduler::testing
