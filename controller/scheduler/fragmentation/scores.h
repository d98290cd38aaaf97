// Finds the node with the least loss for a request. Scores are cached between decisions per class of requests, with the
// best node of every 64 nodes. So a decision scores only nodes that changed since the previous decision of its class.
// Copies of a cluster start without this cache. Internal to scheduler/.
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

/// Cache of scores for one set of prices.
class Scores {
 public:
  explicit Scores(std::shared_ptr<const Prices> prices) : prices_(std::move(prices)), counts_(prices_->shapes()) {}

  /// Invalidates scores. Call it with every result of NodeStates::read().
  void forget(const NodeStates::Changes& changes);
  /// Returns the suitable node with the highest score; ties go to the lowest name. kNone if no node fits. NodeStates
  /// must be up to date.
  NodeId best(const Cluster::State& state, const NodeStates& nodeStates, const Request& request, CardChoice& cards,
              const CardPolicy& policy, const NodePredicate& suits);

 private:
  static constexpr std::size_t kMaxScores = std::size_t{1} << 24;  // maximum number for all classes together
  static constexpr std::size_t kBlock = 64;
  static constexpr Score kUnknown = kUnfit + 1;

  struct Scored {
    NodeId node = kNone;
    Score score = kUnfit;
  };
  /// Scores of all nodes for one class of requests.
  struct ClassScores {
    bool byState = true;          ///< nodes in equal states have equal scores
    std::vector<Score> ofState;   ///< by number of the state, if byState
    std::vector<Score> scores;    ///< by node
    std::vector<Scored> bests;    ///< by block of nodes
    std::vector<NodeId> unknown;  ///< nodes without a score
  };
  struct Hash {
    std::size_t operator()(const Request& request) const;
  };

  ClassScores& scoresOf(const Cluster::State& state, const NodeStates& nodeStates, const Request& request,
                        const CardPolicy& policy);
  static bool isBetter(const Cluster::State& state, const Scored& a, const Scored& b);
  /// Returns the best of `best` and the suitable nodes of a block.
  static Scored bestOf(const Cluster::State& state, const ClassScores& cached, std::size_t block, Scored best,
                       const NodePredicate& suits);
  /// Scores the nodes without a score.
  void update(const Cluster::State& state, const NodeStates& nodeStates, NodeScorer& scorer, ClassScores& cached);
  const NodeCopies& copiesOn(const NodeStates& nodeStates, uint32_t number);

  std::shared_ptr<const Prices> prices_;
  FitCounts counts_;
  std::vector<std::optional<NodeCopies>> copies_;  // by number of the state
  std::unordered_map<Request, ClassScores, Hash> classScores_;
};

}  // namespace egpu::scheduler::fragmentation
