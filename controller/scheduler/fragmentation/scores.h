// The scores of nodes under the fragmentation policy, kept from one decision to the next: a request of a class that was
// asked about before costs only the nodes that changed since. Everything here can be worked out again from the cluster
// and its prices, so copies of a cluster begin without it, and an answer is that of a scan. Internal to scheduler/.
//
// Per class of request a table: the score of every node, and the best node of every block of 64. A log of changed nodes
// tells each table what to look at again. Nodes in equal states share their scores: each state is judged once.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <unordered_map>
#include <vector>

#include "controller/scheduler/decide.h"
#include "controller/scheduler/fragmentation/node_state.h"
#include "controller/scheduler/ids.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler::fragmentation {

/// Higher is better.
using Score = int32_t;
inline constexpr Score kUnfit = std::numeric_limits<Score>::min();  ///< the node can't hold the request

/// A state of a node that was met.
struct KnownState {
  NodeState state;
  std::vector<uint16_t> parts;  ///< Copies::partsOn of it
  float worth = 0;
  // What tells most requests at once that they don't fit.
  TypeId onlyType = kNone;  ///< of all its cards; kNone: there are none, or several types
  Amount most;              ///< free core of the card with most, and memory likewise
  int64_t empty = 0;        ///< cards
};

/// What judges a node; the same for all tables of a request's class.
class Judge {
 public:
  virtual ~Judge() = default;
  /// Fills in what a state is worth.
  virtual void appraise(KnownState& state) = 0;
  virtual Score judge(NodeId node, const KnownState& state) = 0;
  /// Nodes in equal states have equal scores.
  virtual bool byStateAlone() const = 0;
};

class Scores {
 public:
  Scores() = default;
  Scores(const Scores&) {}
  Scores& operator=(const Scores&) {
    clear();
    return *this;
  }

  /// A node came, went, or has more or less free. Cheap where nothing is kept.
  void changed(NodeId node);
  /// Prices changed.
  void clear();

  /// The node with the highest score of those that suit; of equal ones the lowest name. kNone: none fits.
  NodeId best(const Cluster::State& state, const Request& request, Judge& judge, const NodePredicate& suits);

 private:
  static constexpr std::size_t kBlock = 64;
  static constexpr std::size_t kMostScores = std::size_t{1} << 24;  // of all tables together
  static constexpr Score kUnjudged = kUnfit + 1;
  static constexpr uint32_t kNotOffered = kNone - 1;

  struct Table {
    Request request;
    std::size_t hash = 0;
    uint64_t upTo = 0;  ///< of the log
    uint64_t lastUsed = 0;
    std::vector<Score> ofState;  ///< by state
    std::vector<Score> scores;   ///< by node
    std::vector<NodeId> bests;   ///< by block; kNone: none fits
  };

  Table& tableOf(const Cluster::State& state, const Request& request);
  void update(const Cluster::State& state, Table& table, Judge& judge);
  Score scoreOf(const Cluster::State& state, Table& table, Judge& judge, NodeId node);
  uint32_t stateOf(const Cluster::State& state, Judge& judge, NodeId node);
  void forgetStates();
  static bool better(const Cluster::State& state, const Table& table, NodeId a, NodeId b);
  static NodeId bestOf(const Cluster::State& state, const Table& table, std::size_t block, uint64_t without);
  static NodeId bestThatSuits(const Cluster::State& state, const Table& table, const NodePredicate& suits);

  std::vector<std::unique_ptr<Table>> tables_;
  uint64_t uses_ = 0;
  std::deque<KnownState> states_;  // the first count_ are in use
  uint32_t count_ = 0;
  std::unordered_multimap<std::size_t, uint32_t> stateIds_;  // by hash
  std::vector<uint32_t> nodeStates_;                         // by node; kNone: to be read; kNotOffered
  std::vector<NodeId> log_;
  uint64_t logStart_ = 0;  // how many were dropped from its front
};

}  // namespace egpu::scheduler::fragmentation
