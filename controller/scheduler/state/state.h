// The data of a Cluster. Internal to scheduler/; all other code uses cluster.h.
//
// Records are in arrays and refer to each other by position, so a copy for simulation copies a few arrays. A large
// cluster does not fit into the processor's caches, and memory accesses dominate the cost of a decision. Therefore the
// cards of a node are neighbours, a record has only the data that decisions read, and strings are elsewhere.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/fragmentation/demand_forecast.h"
#include "controller/scheduler/mig/placement.h"
#include "controller/scheduler/request.h"
#include "controller/scheduler/state/card_ids.h"
#include "controller/scheduler/state/card_left.h"
#include "controller/scheduler/state/facts.h"
#include "controller/scheduler/state/holders.h"
#include "controller/scheduler/state/ids.h"
#include "controller/scheduler/state/index.h"
#include "controller/scheduler/state/large_array.h"
#include "controller/scheduler/state/modes.h"
#include "controller/scheduler/state/names.h"
#include "controller/scheduler/state/ranges.h"
#include "controller/scheduler/state/sparse_values.h"
#include "controller/scheduler/topology/dgx.h"
#include "controller/scheduler/topology/wiring.h"

namespace egpu::scheduler {

/// Attributes that determine a request's needs: empty cards of one type are interchangeable.
struct CardType {
  std::string model;
  int64_t core = 0;         ///< milli-cards
  int64_t memory = 0;       ///< bytes
  int64_t milliTflops = 0;  ///< thousandths of a TFLOPS, 0 = unknown
  mig::Profiles mig{};      ///< empty = not in MIG mode
  auto operator<=>(const CardType&) const = default;
};

/// Allocation of one device on one card.
struct CardAllocation {
  DeviceId device;
  uint32_t nodeShare = kNone;  ///< index of its amounts on the node, in State::nodeShares_
  Amount charged;
};

struct CardRecord {
  CardLeft left;
  NodeId node = kNone;
  TypeId type : 22;           ///< includes its capacity
  uint32_t mode : 5;          ///< ModeId of its shares; meaningless while it is empty
  uint32_t limiter : 2;       ///< LimiterSupport
  uint32_t memoryLimits : 1;  ///< the driver limits the memory of containers on it
  uint32_t exclusive : 1;     ///< it serves one process at a time, by its compute mode; not in MIG mode
  uint32_t healthy : 1;
  Range allocations;

  CardRecord() : type(0), mode(kNoIsolation), limiter(0), memoryLimits(0), exclusive(0), healthy(0) {}
  Amount free() const { return left.amount(); }
  /// True if the card has no holders.
  bool empty() const { return allocations.count == 0; }
  /// Number of devices with an allocation on it.
  int64_t claims() const { return allocations.count; }
};
static_assert(sizeof(CardRecord) == 32);

/// Allocation of a pod without cards on a node.
struct NodeAllocation {
  DeviceId pod;
  NodeAmount amount;
};

struct NodeRecord {
  CardIds cards;        ///< by index, then uuid, then name
  int64_t claims = 0;   ///< number of distinct devices with an allocation on its cards
  NodeAmount capacity;  ///< allocatable; 0 = unknown
  NodeAmount used;      ///< sum of the allocations on its cards and its own
  Range allocations;    ///< allocations of pods without cards
  std::string_view name;
  std::shared_ptr<const topology::Wiring> topology;  ///< in the order of the cards; null if they report no links
  topology::Machine machine = topology::Machine::other;
  bool hasObject = false;  ///< a Node object exists (upsertNode was called)
  bool schedulable = false;

  bool offered() const { return hasObject && schedulable; }
  void use(const NodeAmount& amount, int64_t sign = 1) {
    used.cpuMilli += sign * amount.cpuMilli;
    used.memory += sign * amount.memory;
  }
  /// Free CPU and memory; a very large amount if the capacity is unknown. Negative if overdrawn.
  NodeAmount free() const {
    constexpr int64_t kPlenty = std::numeric_limits<int64_t>::max();
    return {capacity.cpuMilli > 0 ? capacity.cpuMilli - used.cpuMilli : kPlenty,
            capacity.memory > 0 ? capacity.memory - used.memory : kPlenty};
  }
};

/// The nodes ordered by name: for (const auto& [name, id] : state.nodesByName()).
class NodesByName {
 public:
  explicit NodesByName(const NodeIndex::Names& names) : names_(names) {}
  auto begin() const { return names_.begin(); }
  auto end() const { return names_.end(); }
  /// Returns the first node whose name is greater than this one.
  auto after(std::string_view name) const { return names_.upper_bound(name); }
  std::size_t size() const { return names_.size(); }

 private:
  const NodeIndex::Names& names_;
};

/// The index's data about a node: its position and its summary.
struct Survey {
  int64_t fill = 0;  ///< fill of the healthy cards (fill.h)
  Summary summary;
};

/// Use the functions below instead of the fields, because the representation changes.
struct Cluster::State {
  std::vector<CardType> types;
  std::map<CardType, TypeId> typeIds;
  LargeArray<CardRecord> cards;
  LargeArray<const CardFacts*> facts;  ///< by card; null = unused position
  LargeArray<NodeRecord> nodes;
  topology::Wirings wirings;
  Modes modes;
  NodeIndex index;  ///< the schedulable nodes
  fragmentation::DemandForecast outlook;

  CardId findCard(std::string_view name) const {
    return cardIds_.find(name, NameTable::hashOf(name), [this](CardId id) { return facts[id]->name(); });
  }
  /// As findCard(), but fast if the card is at the position of the hint.
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
    const Amount left = card.free();
    return {type.core - left.core, type.memory - left.memory};
  }
  /// Returns the full description of the card, composed from its parts.
  v1alpha::Card cardOf(CardId id) const;
  /// Calls f(std::string_view deviceUid, const Amount& charged, const NodeAmount& ofNode) for every allocation on a
  /// card, unordered.
  template <class F>
  void eachTake(CardId id, F f) const {
    for (const CardAllocation& allocation : allocations_.of(cards[id].allocations))
      f(holders_.uidOf(allocation.device), allocation.charged, nodeShares_.of(allocation.nodeShare));
  }

  /// Returns the id of the card's type, which is added if it is new.
  TypeId findOrAddType(const v1alpha::Card& card);

  // Implement the functions of the same names in Cluster, by position.
  void upsertNode(const NodeInfo& info);
  void removeNode(NodeId id);
  void upsertCard(const CardInfo& info);
  void removeCard(CardId id);
  void take(CardId id, std::string_view uid, const Amount& charged, const NodeAmount& ofNode);
  void giveBack(CardId id, std::string_view uid);
  void takeOfNode(NodeId id, std::string_view uid, const NodeAmount& amount);
  void giveBackOfNode(NodeId id, std::string_view uid);

  /// Computes the index's data about a node.
  Survey survey(const NodeRecord& node, const Scale& scale) const;
  /// Recomputes all derived data. Returns the first difference; empty if there is none.
  std::string check() const;

 private:
  friend class StateCheck;
  NodeId obtainNode(std::string_view name);
  void writeFacts(CardId id, const CardInfo& info);
  void dropFacts(CardId id);
  /// Removes a node that has neither a Node object nor cards.
  void dropIfUnused(NodeId id);
  /// Moves all strings to a new arena if much of the old one is unused.
  void compactStrings();

  /// Moves a card's data; `from` becomes unused, `to` must be free.
  void moveCard(CardId from, CardId to);
  CardId obtainCard();
  void releaseCard(CardId id);
  /// Inserts a card without a node into a node's cards, in their order; returns its new position.
  CardId attach(CardId id, NodeId node);
  /// Removes a card from its node; returns its new position.
  CardId detach(CardId id);
  /// Recomputes a node's topology and machine.
  void rewire(NodeRecord& node);

  /// True if the device has an allocation on the node's cards.
  bool onNode(const NodeRecord& node, DeviceId device) const;
  /// Adds the effect of a card's allocations to its node, or subtracts it.
  void count(NodeId node, CardId card, int sign);
  /// Updates the index for a node whose cards, health or readiness changed.
  void refresh(NodeId id);
  /// Updates the index for a node of which only amounts and claims changed.
  void touch(NodeId id);

  Arena text_;  // names, facts
  Ranges cardRanges_;
  std::size_t gpuNodes_ = 0;  ///< number of nodes with cards
  NameTable cardIds_;
  std::vector<NodeId> freeNodes_;
  NameTable nodeIds_;
  NodeIndex::Names names_;
  Lists<CardAllocation> allocations_;
  Lists<NodeAllocation> nodeAllocations_;
  SparseValues<NodeAmount, LargeArray<NodeAmount>> nodeShares_;
  Holders holders_;
  SparseValues<std::shared_ptr<const v1alpha::CardTopology>> topologies_;
};

/// Records the isolation mode of the card's shares; empty = none.
void setMode(Cluster::State& state, CardId id, std::string_view mode);
/// Returns the isolation mode of the card's shares; empty = none, or no holders.
std::string_view modeNameOf(const Cluster::State& state, CardId id);

/// True if card a comes before card b on their node: by index, then uuid, then name.
bool isCardBefore(const Cluster::State& state, CardId a, CardId b);

}  // namespace egpu::scheduler
