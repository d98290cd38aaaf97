// The scores of nodes under the fragmentation policy, kept from one decision to the next: a request of a class that was
// asked about before costs only the nodes that changed since. Everything here can be worked out again from the cluster
// and its prices, so copies of a cluster begin without it, and an answer is that of a scan. Internal to scheduler/.
//
// Per class of request a table: the score of every node, and the best node of every block of 64. A log of changed nodes
// tells each table what to look at again. Nodes in equal states share their scores: each state is judged once.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "controller/scheduler/decide.h"
#include "controller/scheduler/fragmentation/node_states.h"
#include "controller/scheduler/request.h"
#include "controller/scheduler/state/ids.h"

namespace egpu::scheduler::fragmentation {

/// Higher is better.
using Score = int32_t;
inline constexpr Score kUnfit = std::numeric_limits<Score>::min();  ///< the node can't hold the request

/// What judges a node; the same for all tables of a request's class.
class Judge {
 public:
  virtual ~Judge() = default;
  /// What a state of cards of this type alone, or of several types (kNone), must have at least; what lacks it is never
  /// judged. The same whatever the prices are.
  virtual FreeRoom leastOn(TypeId type) = 0;
  /// Fills in what a state is worth.
  virtual void appraise(KnownState& state) = 0;
  /// A node in a state that was appraised. `chosen` is kUnchosen, or what judging an equal state for this class of
  /// request has left there, whatever the prices were.
  virtual Score judge(NodeId node, const KnownState& state, uint16_t& chosen) = 0;
  static constexpr uint16_t kUnchosen = std::numeric_limits<uint16_t>::max();
  /// Nodes in equal states have equal scores.
  virtual bool byStateAlone() const = 0;
};

class Scores {
 public:
  /// Nodes changed, as NodeStates says; of so many.
  void note(const std::vector<NodeStates::Change>& changes, std::size_t nodes);
  /// Prices changed.
  void repriced();

  /// The node with the highest score of those that suit; of equal ones the lowest name. kNone: none fits.
  /// NodeStates must be up to date, and its changes noted.
  NodeId best(const Cluster::State& state, NodeStates& nodeStates, const Request& request, Judge& judge,
              const NodePredicate& suits);

 private:
  static constexpr std::size_t kBlock = 64;
  static constexpr std::size_t kMostScores = std::size_t{1} << 24;  // of all tables together
  static constexpr Score kUnjudged = kUnfit + 1;
  struct Table {
    Request request;
    uint64_t upTo = 0;  ///< of the log
    uint64_t lastUsed = 0;
    uint64_t generation = 0;       ///< of NodeStates, that ofState is by
    uint64_t pricing = 0;          ///< that scores are by; 0: none
    std::vector<FreeRoom> least;   ///< that a state of cards of one type must have, by type
    FreeRoom leastOfSeveral;       ///< likewise of several types or no cards
    FreeRoom leastOfAny;           ///< less than this is enough on no type
    std::vector<Score> ofState;    ///< by state: kUnfit if it can't hold it; the score, if it is by state alone
    std::vector<uint16_t> chosen;  ///< by state, as Judge::judge() leaves it
    std::vector<Score> scores;     ///< by node
    std::vector<NodeId> bests;     ///< by block; kNone: none fits
  };

  /// What a table is brought up to date with.
  struct Reading {
    const Cluster::State& state;
    NodeStates& nodeStates;
    Judge& judge;
    bool byStateAlone;
  };

  Table& tableOf(const Cluster::State& state, const Request& request);
  void update(Reading& reading, Table& table);
  void scan(Reading& reading, Table& table);
  void catchUp(Reading& reading, Table& table);
  /// Of a node whose state's score is not kept.
  Score judged(Reading& reading, Table& table, NodeId node);
  static bool better(const Cluster::State& state, const Table& table, NodeId a, NodeId b);
  static NodeId bestOf(const Cluster::State& state, const Table& table, std::size_t block, uint64_t without);
  static NodeId bestThatSuits(const Cluster::State& state, const Table& table, const NodePredicate& suits);

  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::size_t> hashes_;  // of the tables, in their order: looked through for each decision
  uint64_t uses_ = 0;
  uint64_t pricing_ = 1;  // which prices these are
  std::vector<NodeStates::Change> log_;
  uint64_t logStart_ = 0;  // how many were dropped from its front
};

}  // namespace egpu::scheduler::fragmentation
