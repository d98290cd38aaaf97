// What a Cluster holds. Internal to scheduler/: everybody else sees cluster.h.
//
// Records live in arrays and name each other by position, so a copy for simulation is a copy of a few arrays. A large
// cluster does not fit into the processor's caches, and waiting for memory is most of what a decision costs: the cards
// of a node are neighbours, a record has only what decisions read, and text stands elsewhere.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/fragmentation/outlook.h"
#include "controller/scheduler/request.h"
#include "controller/scheduler/state/facts.h"
#include "controller/scheduler/state/holders.h"
#include "controller/scheduler/state/ids.h"
#include "controller/scheduler/state/index.h"
#include "controller/scheduler/state/large_array.h"
#include "controller/scheduler/state/names.h"
#include "controller/scheduler/state/ranges.h"
#include "controller/scheduler/topology/dgx.h"
#include "controller/scheduler/topology/wiring.h"

namespace egpu::scheduler {

/// What makes two empty cards interchangeable for a request: its needs are the same on both.
struct CardType {
  std::string model;
  int64_t core = 0;         ///< milli-cards
  int64_t memory = 0;       ///< bytes
  int64_t milliTflops = 0;  ///< thousandths of a TFLOPS, 0 = unknown
  auto operator<=>(const CardType&) const = default;
};

/// What one device takes of one card.
struct CardAllocation {
  DeviceId device;
  uint32_t nodeShare = kNone;  ///< what goes off the node with it: position in State::nodeShares
  Amount charged;
};

struct CardRecord {
  Amount left;  ///< capacity − Σ charged; negative if it is overdrawn
  NodeId node = kNone;
  TypeId type : 31;  ///< its capacity, too
  uint32_t healthy : 1;
  Range allocations;

  CardRecord() : type(0), healthy(0) {}
  const Amount& free() const { return left; }
  /// Nobody holds any of it.
  bool empty() const { return allocations.count == 0; }
  /// Devices that hold some of it.
  int64_t claims() const { return allocations.count; }
};
static_assert(sizeof(CardRecord) == 32);

/// The cards of a node, neighbours in State::cards.
class CardIds {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = CardId;
    using difference_type = std::ptrdiff_t;
    using pointer = const CardId*;
    using reference = CardId;
    Iterator() = default;
    explicit Iterator(CardId at) : at_(at) {}
    CardId operator*() const { return at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return Iterator(at_++); }
    bool operator==(const Iterator&) const = default;

   private:
    CardId at_ = 0;
  };
  CardIds() = default;
  explicit CardIds(Range range) : range_(range) {}
  Iterator begin() const { return Iterator(range_.first); }
  Iterator end() const { return Iterator(range_.first + range_.count); }
  std::size_t size() const { return range_.count; }
  bool empty() const { return range_.count == 0; }
  CardId operator[](std::size_t place) const { return range_.first + static_cast<CardId>(place); }

 private:
  friend struct Cluster::State;
  Range range_;
};

/// What a pod without cards takes of a node.
struct NodeAllocation {
  DeviceId pod;
  NodeAmount amount;
};

struct NodeRecord {
  CardIds cards;        ///< by index, then uuid, then name
  int64_t claims = 0;   ///< distinct devices that take something of its cards
  NodeAmount capacity;  ///< allocatable; 0 = unknown
  NodeAmount used;      ///< Σ over the takes of its cards and its own
  Range allocations;    ///< of pods without cards
  std::string_view name;
  std::shared_ptr<const topology::Wiring> topology;  ///< of cards, in their order; null if they tell nothing
  topology::Machine machine = topology::Machine::other;
  bool hasObject = false;  ///< upsertNode was called: there is a Node
  bool schedulable = false;

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
  explicit NodesByName(const NodeIndex::Names& names) : names_(names) {}
  auto begin() const { return names_.begin(); }
  auto end() const { return names_.end(); }
  /// From the first name greater than this one on.
  auto after(std::string_view name) const { return names_.upper_bound(name); }
  std::size_t size() const { return names_.size(); }

 private:
  const NodeIndex::Names& names_;
};

/// What the index keeps about a node, and where in its order it belongs.
struct Survey {
  int64_t fill = 0;  ///< fill.h, of the healthy cards
  Summary summary;
};

/// Read records through the functions below rather than their fields: how they are kept changes.
struct Cluster::State {
  std::vector<CardType> types;
  std::map<CardType, TypeId> typeIds;
  LargeArray<CardRecord> cards;
  LargeArray<const CardFacts*> facts;  ///< by card; null: nothing stands here
  LargeArray<NodeRecord> nodes;
  topology::Wirings wirings;
  NodeIndex index;  ///< the nodes that are offered
  fragmentation::Outlook outlook;

  CardId findCard(std::string_view name) const {
    return cardIds_.find(name, NameTable::hashOf(name), [this](CardId id) { return facts[id]->name(); });
  }
  /// As findCard(), fast if the card stands where the hint says.
  CardId findCard(std::string_view name, CardId hint) const {
    if (hint < facts.size() && facts[hint] && facts[hint]->name() == name) return hint;
    return findCard(name);
  }
  NodeId findNode(std::string_view name) const {
    return nodeIds_.find(name, NameTable::hashOf(name), [this](NodeId id) { return nodes[id].name; });
  }
  NodesByName nodesByName() const { return NodesByName(names_); }
  std::size_t cardCount() const { return cardIds_.size(); }
  std::size_t gpuNodeCount() const { return gpuNodes_; }

  std::string_view cardName(CardId id) const { return facts[id]->name(); }
  std::string_view cardUuid(CardId id) const { return facts[id]->uuid(); }
  int64_t cardIndex(CardId id) const { return facts[id]->index(); }
  const v1alpha::CardTopology& topologyOf(CardId id) const;
  Amount capacityOf(CardId id) const {
    const CardType& type = types[cards[id].type];
    return {type.core, type.memory};
  }
  Amount usedOf(CardId id) const {
    const CardRecord& card = cards[id];
    const CardType& type = types[card.type];
    return {type.core - card.left.core, type.memory - card.left.memory};
  }
  /// The card as it was described, put together: a copy.
  v1alpha::Card cardOf(CardId id) const;
  /// f(std::string_view deviceUid, const Amount& charged, const NodeAmount& ofNode) for every take of a card, in no
  /// order.
  template <class F>
  void eachTake(CardId id, F f) const {
    for (const CardAllocation& allocation : allocations_.of(cards[id].allocations))
      f(holders_.uidOf(allocation.device), allocation.charged, ofNode(allocation));
  }

  TypeId obtainType(const v1alpha::Card& card);

  // What Cluster does, by position.
  void upsertNode(const NodeInfo& info);
  void removeNode(NodeId id);
  void upsertCard(const CardInfo& info);
  void removeCard(CardId id);
  void take(CardId id, std::string_view uid, const Amount& charged, const NodeAmount& ofNode);
  void giveBack(CardId id, std::string_view uid);
  void takeOfNode(NodeId id, std::string_view uid, const NodeAmount& amount);
  void giveBackOfNode(NodeId id, std::string_view uid);

  /// What the index should know of a node.
  Survey survey(const NodeRecord& node, const Scale& scale) const;
  /// Recomputes everything that is kept up to date by event; names the first difference, empty if there is none.
  std::string check() const;

 private:
  NodeId obtainNode(std::string_view name);
  uint32_t obtainTopology(const v1alpha::CardTopology& topology);
  void writeFacts(CardId id, const CardInfo& info);
  void dropFacts(CardId id);
  bool describes(CardId id, const v1alpha::Card& card) const;
  /// Drops a node that has neither an object nor cards.
  void dropIfUnused(NodeId id);
  /// Moves text that is still read to a new arena if much of the old one is not.
  void tidyText();

  /// Positions for cards: `from` must not be used any more; `to` must be free.
  void moveCard(CardId from, CardId to);
  CardId obtainCard();
  void releaseCard(CardId id);
  /// Puts a card that stands alone among a node's, in their order; returns where.
  CardId attach(CardId id, NodeId node);
  /// Takes a card from its node; it stands alone then, where this returns.
  CardId detach(CardId id);
  bool ordered(CardId a, CardId b) const;
  /// Works out a node's topology and machine anew.
  void rewire(NodeRecord& node);

  NodeAmount ofNode(const CardAllocation& allocation) const {
    return allocation.nodeShare == kNone ? NodeAmount{} : nodeShares_[allocation.nodeShare];
  }
  void setShare(CardAllocation& allocation, const NodeAmount& share);
  /// Whether the device takes something of the node's cards.
  bool onNode(const NodeRecord& node, DeviceId device) const;
  int64_t countClaims(const NodeRecord& node) const;
  NodeAmount countUsed(const NodeRecord& node) const;
  /// Adds what a card's allocations mean to its node, or takes it away.
  void count(NodeId node, CardId card, int sign);
  /// Brings the index up to date with a node whose cards, health or readiness changed.
  void refresh(NodeId id);
  /// The same where only amounts and claims changed.
  void touch(NodeId id);

  std::string checkNode(NodeId id) const;
  std::string checkCard(CardId id) const;

  Arena text_;  // names, facts
  Ranges cardRanges_;
  std::size_t gpuNodes_ = 0;  ///< nodes that have cards
  NameTable cardIds_;
  std::vector<NodeId> freeNodes_;
  NameTable nodeIds_;
  NodeIndex::Names names_;
  Lists<CardAllocation> allocations_;
  Lists<NodeAllocation> nodeAllocations_;
  LargeArray<NodeAmount> nodeShares_;
  std::vector<uint32_t> freeShares_;
  Holders holders_;
  std::vector<std::shared_ptr<const v1alpha::CardTopology>> topologies_;  // null: free
  std::vector<uint32_t> freeTopologies_;
};

}  // namespace egpu::scheduler
