// What a Cluster holds. Internal to scheduler/: everybody else sees cluster.h.
// Records live in vectors and name each other by position, so a copy for simulation is a copy of a few vectors.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/fragmentation/outlook.h"
#include "controller/scheduler/ids.h"
#include "controller/scheduler/index.h"
#include "controller/scheduler/request.h"
#include "controller/scheduler/topology/dgx.h"
#include "controller/scheduler/topology/shape.h"

namespace egpu::scheduler {

/// What makes two empty cards interchangeable for a request: its needs are the same on both.
struct CardType {
  std::string model;
  int64_t core = 0;    ///< milli-cards
  int64_t memory = 0;  ///< bytes
  int64_t tflops = 0;  ///< 0 = unknown
  auto operator<=>(const CardType&) const = default;
};

/// What rarely changes of a card; shared between a cluster and its copies.
struct CardFacts {
  std::string name;
  v1alpha::Card card;
};

struct Take {
  std::size_t hash;  ///< of device; looked at first, which spares following a pointer to text that differs
  std::string device;
  Amount charged;
  NodeAmount ofNode;

  bool by(std::size_t h, std::string_view uid) const { return hash == h && device == uid; }
};

struct CardRecord {
  std::shared_ptr<const CardFacts> facts;  ///< null: an unused slot
  Amount capacity;
  Amount used;
  std::vector<Take> takes;
  NodeId node = kNone;
  TypeId type = kNone;
  bool healthy = true;

  Amount free() const { return {capacity.core - used.core, capacity.memory - used.memory}; }
  /// Nobody holds any of it.
  bool empty() const { return takes.empty(); }
  /// Devices that hold some of it.
  int64_t claims() const { return static_cast<int64_t>(takes.size()); }
};

/// What a pod without cards takes of a node.
struct NodeTake {
  std::string uid;
  NodeAmount amount;
};

struct NodeRecord {
  std::string name;
  std::vector<CardId> cards;        ///< by index, then uuid, then name
  std::vector<std::size_t> takers;  ///< hash of the device of every take here, unordered
  int64_t claims = 0;               ///< distinct devices that take something here
  NodeAmount capacity;              ///< allocatable; 0 = unknown
  NodeAmount used;                  ///< Σ over the takes of its cards and its own
  std::vector<NodeTake> takes;      ///< of pods without cards
  std::shared_ptr<const topology::Shape> topology;  ///< of cards, in their order; null if they tell nothing
  topology::Machine machine = topology::Machine::other;
  bool hasObject = false;           ///< upsertNode was called: there is a Node
  bool schedulable = false;
  bool live = false;  ///< false: an unused slot

  bool offered() const { return hasObject && schedulable; }
  void use(const NodeAmount& amount, int64_t sign = 1) {
    used.cpuMilli += sign * amount.cpuMilli;
    used.memory += sign * amount.memory;
  }
  /// CPU and memory left; of what is unknown, more than anybody asks for. Negative if overdrawn.
  NodeAmount free() const {
    constexpr int64_t kPlenty = std::numeric_limits<int64_t>::max();
    return {capacity.cpuMilli > 0 ? capacity.cpuMilli - used.cpuMilli : kPlenty,
            capacity.memory > 0 ? capacity.memory - used.memory : kPlenty};
  }
};

/// The nodes in the order of their names: for (const auto& [name, id] : state.nodesByName()).
class NodesByName {
 public:
  using Map = std::map<std::string, NodeId, std::less<>>;
  struct Entry {
    std::string_view name;
    NodeId id;
  };
  class Iterator {
   public:
    explicit Iterator(Map::const_iterator at) : at_(at) {}
    Entry operator*() const { return {at_->first, at_->second}; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    Map::const_iterator at_;
  };
  explicit NodesByName(const Map& map) : map_(map) {}
  Iterator begin() const { return Iterator(map_.begin()); }
  Iterator end() const { return Iterator(map_.end()); }

 private:
  const Map& map_;
};

/// Read records through the functions below rather than their fields: how they are kept changes.
struct Cluster::State {
  std::vector<CardType> types;
  std::map<CardType, TypeId> typeIds;
  std::vector<CardRecord> cards;
  std::vector<CardId> freeCards;
  std::unordered_map<std::string_view, CardId> cardIds;  ///< keys point into CardFacts
  std::vector<NodeRecord> nodes;
  std::vector<NodeId> freeNodes;
  std::map<std::string, NodeId, std::less<>> nodeIds;
  topology::Shapes shapes;
  NodeIndex index;  ///< the nodes that are offered
  fragmentation::Outlook outlook;

  CardId findCard(std::string_view name) const;
  NodeId findNode(std::string_view name) const;
  NodesByName nodesByName() const { return NodesByName(nodeIds); }
  std::string_view cardName(CardId id) const { return cards[id].facts->name; }
  std::string_view cardUuid(CardId id) const { return cards[id].facts->card.uuid; }
  int64_t cardIndex(CardId id) const { return cards[id].facts->card.index; }
  const v1alpha::CardTopology& topologyOf(CardId id) const { return cards[id].facts->card.topology; }
  Amount capacityOf(CardId id) const { return cards[id].capacity; }
  Amount usedOf(CardId id) const { return cards[id].used; }
  /// The card as it was described, put together: a copy.
  v1alpha::Card cardOf(CardId id) const { return cards[id].facts->card; }
  /// f(std::string_view deviceUid, const Amount& charged, const NodeAmount& ofNode) for every take of a card, in no
  /// order.
  template <class F>
  void eachTake(CardId id, F f) const {
    for (const Take& take : cards[id].takes) f(std::string_view(take.device), take.charged, take.ofNode);
  }
  NodeId obtainNode(std::string_view name);
  TypeId obtainType(const v1alpha::Card& card);
  /// Drops a node that has neither an object nor cards.
  void dropIfUnused(NodeId id);
  void detach(CardId id);
  void attach(CardId id, NodeId node);
  bool deviceOnNode(const NodeRecord& node, std::size_t hash, std::string_view device) const;
  /// Works out a node's topology and machine anew.
  void rewire(NodeRecord& node);
  /// Works out a node's takers, claims and used anew.
  void recount(NodeRecord& node) const;
  int64_t countClaims(const NodeRecord& node) const;
  /// Brings the index up to date with a node whose cards, health or readiness changed.
  void refresh(NodeId id);
  /// The same where only amounts and claims changed.
  void touch(NodeId id);
  int64_t fillOfNode(NodeId id) const;
  /// What the index keeps about a node.
  Summary summarise(NodeId id, Scale scale) const;
  /// Recomputes everything that is kept up to date by event; names the first difference, empty if there is none.
  std::string check() const;
};

}  // namespace egpu::scheduler
