// The node that loses least by a request. Scores are kept from one decision to the next, per class of request, and so
// is the best of every 64 nodes: a decision scores only the nodes that changed since the last one of its class. All of
// it can be worked out again, so copies of a cluster begin without it. Internal to scheduler/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "controller/scheduler/decide.h"
#include "controller/scheduler/fragmentation/node_scoring.h"
#include "controller/scheduler/fragmentation/node_states.h"
#include "controller/scheduler/fragmentation/prices.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler::fragmentation {

/// Scores under one set of prices.
class Scores {
 public:
  explicit Scores(std::shared_ptr<const Prices> prices) : prices_(std::move(prices)), counts_(prices_->shapes()) {}

  /// Must be told of every change that NodeStates::read() returns.
  void forget(const NodeStates::Changes& changes);
  /// The node with the highest score of those that suit; of equal ones the lowest name. kNone: none fits.
  /// NodeStates must be up to date.
  NodeId best(const Cluster::State& state, const NodeStates& nodeStates, const Request& request, CardChoice& cards,
              const CardPolicy& policy, const NodePredicate& suits);

 private:
  static constexpr std::size_t kMostScores = std::size_t{1} << 24;  // of all tables together
  static constexpr std::size_t kBlock = 64;
  static constexpr Score kUnknown = kUnfit + 1;

  struct Scored {
    NodeId node = kNone;
    Score score = kUnfit;
  };
  struct Table {
    bool byState = true;          ///< nodes in equal states have equal scores
    std::vector<Score> ofState;   ///< if so, by number of the state
    std::vector<Score> scores;    ///< by node
    std::vector<Scored> bests;    ///< by block of nodes
    std::vector<NodeId> unknown;  ///< nodes that are to be scored
  };
  struct Hash {
    std::size_t operator()(const Request& request) const;
  };

  Table& tableOf(const Cluster::State& state, const NodeStates& nodeStates, const Request& request,
                 const CardPolicy& policy);
  static bool better(const Cluster::State& state, const Scored& a, const Scored& b);
  /// The best of `best` and those nodes of a block that suit.
  static Scored bestOf(const Cluster::State& state, const Table& table, std::size_t block, Scored best,
                       const NodePredicate& suits);
  /// Scores what is unknown.
  void update(const Cluster::State& state, const NodeStates& nodeStates, NodeScorer& scorer, Table& table);
  const NodeCopies& copiesOn(const NodeStates& nodeStates, uint32_t number);

  std::shared_ptr<const Prices> prices_;
  FitCounts counts_;
  std::vector<std::optional<NodeCopies>> copies_;  // by number of the state
  std::unordered_map<Request, Table, Hash> tables_;
};

}  // namespace egpu::scheduler::fragmentation
