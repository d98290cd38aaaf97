// The scheduler's state: nodes, cards and allocations, with indexes that events update. Pure state: no I/O, locks,
// clocks. Not thread-safe; the cache serialises access. Copyable for simulation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler {

struct NodeInfo {
  std::string name;
  bool schedulable = true;  ///< ready and not cordoned; false without a Node object
  int64_t cpuMilli = 0;     ///< allocatable CPU, thousandths; 0 = unknown, never a constraint
  int64_t memory = 0;       ///< allocatable memory, bytes; 0 = unknown, never a constraint
  bool operator==(const NodeInfo&) const = default;
};

struct CardInfo {
  std::string name;  ///< object name
  v1alpha::Card card;
  bool healthy = true;  ///< false = quarantined; allocations stay
};

/// Refers to a card by object name. The hint is its position when the decision was made, and saves the look-up while
/// the card is still there.
struct CardRef {
  static constexpr uint32_t kNoHint = UINT32_MAX;
  std::string_view name;
  uint32_t hint = kNoHint;

  CardRef(std::string_view n, uint32_t h = kNoHint) : name(n), hint(h) {}
  CardRef(const std::string& n) : name(n) {}
  CardRef(const char* n) : name(n) {}
};

/// A read-only view of one card. Its strings are valid until the cluster changes.
struct CardView {
  bool known = false;  ///< false = no such card, and the other fields are meaningless
  std::string_view name;
  std::string_view uuid;
  std::string_view node;  ///< empty = the card names no node
  std::string_view model;
  int64_t index = 0;
  bool healthy = true;
  Amount capacity;
  int64_t milliTflops = 0;     ///< rating of the whole card; 0 = unknown
  Amount used;                 ///< sum of the charged amounts of all allocations
  int64_t claims = 0;          ///< number of allocations
  std::string_view isolation;  ///< isolation mode of its shares; empty = none, or no allocations
  /// Profiles of its MIG instances; null = not in MIG mode. Valid until the cluster changes.
  const std::vector<v1alpha::MigProfile>* mig = nullptr;
};

struct Placement;

/// Allocation of one holder on a card, and on the card's node.
struct HolderAllocation {
  std::string uid;
  Amount charged;
  NodeAmount ofNode;
};

/// Returns the card with only the attributes that decisions depend on, the isolation modes that it offers, in a normal
/// form.
v1alpha::Card withDecisiveAttributes(v1alpha::Card card);

/// The learned demand (state/demand.h) as a value. A cluster that learns it makes the same decisions.
struct Learned {
  struct Class {
    Request request;
    double weight = 0;  ///< in units of `unit`
  };
  std::vector<Class> classes;
  int64_t seen = 0;                  ///< number of requests
  double unit = 1;                   ///< weight of a request that is observed now
  bool priced = false;               ///< the fragmentation policy has prices
  std::vector<v1alpha::Card> types;  ///< model and amounts of all card types, in the order of first appearance
};

class Cluster {
 public:
  Cluster();
  ~Cluster();
  Cluster(const Cluster&);
  Cluster& operator=(const Cluster&);
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;

  void upsertNode(const NodeInfo& node);
  void removeNode(std::string_view name);
  /// Adds a card, or changes its capacity, node or health. Allocations stay.
  void upsertCard(const CardInfo& card);
  /// Removes a card with its allocations.
  void removeCard(std::string_view name);
  /// Allocates an amount (charged) of a card to a device; replaces an earlier allocation of that device there. `ofNode`
  /// is the CPU and memory allocated on the card's node with it; a device of several cards passes it for one card only.
  /// `isolation`: mode of the share, which the card gets if it has no allocations; empty = none, nullopt = the card
  /// keeps the mode that was recorded last. Returns false and does nothing if the card is unknown.
  bool take(CardRef card, std::string_view deviceUid, Amount charged, NodeAmount ofNode = {},
            std::optional<std::string_view> isolation = {});
  /// Allocates one card of a decision, with the mode that it has in the decision.
  bool take(const Placement& placement, std::string_view deviceUid, NodeAmount ofNode = {});
  /// Releases an allocation and its amounts on the node; no-op if there is none.
  void giveBack(CardRef card, std::string_view deviceUid);
  /// Allocates CPU and memory of a node to a pod without cards; replaces an earlier amount of that uid. It does not
  /// count as a claim. Returns false and does nothing without a Node object. Removing the node releases it.
  bool takeOfNode(std::string_view node, std::string_view uid, NodeAmount amount);
  /// Releases such an amount; no-op if there is none.
  void giveBackOfNode(std::string_view node, std::string_view uid);

  /// Records the isolation mode of the shares on a card (spec.mode); empty = none. No-op if the card is unknown.
  void noteMode(std::string_view card, std::string_view mode);
  /// Returns the mode that a share has on the card (Placement::isolation) by the class parameter `isolation`: "auto" is
  /// the strongest mode that the card offers.
  std::string isolationOn(std::string_view card, std::string_view parameter) const;

  /// Records a request in the demand model of the fragmentation policy (state/demand.h). Call it once per request,
  /// before its first decide(), whatever its policy is and whether or not it fits.
  void observe(const Request& request);

  Learned learned() const;
  /// Restores the learned demand. The cluster must be empty; then add nodes, cards and allocations, and call reprice().
  void learn(const Learned& learned);
  /// Recomputes the prices of the fragmentation policy, if any. Afterwards decisions depend on learned(), the present
  /// state and later events, but no longer on earlier decisions.
  void reprice();

  std::size_t nodeCount() const;
  /// Number of nodes with cards.
  std::size_t gpuNodeCount() const;
  std::size_t cardCount() const;
  CardView findCard(std::string_view name) const;
  /// Returns the full description of a card.
  std::optional<v1alpha::Card> describe(std::string_view name) const;
  /// Returns the allocations on a card, by uid.
  std::vector<HolderAllocation> allocationsOn(std::string_view card) const;
  /// Returns the card object names of a node, by index, then uuid.
  std::vector<std::string> cardsOf(std::string_view node) const;
  std::vector<std::string> nodes() const;
  /// Returns the cards that name no node.
  std::vector<std::string> cardsOfNoNode() const;
  /// Returns nullopt if there is no Node object of that name.
  std::optional<NodeInfo> describeNode(std::string_view name) const;
  bool nodeSchedulable(std::string_view node) const;
  /// Returns the CPU and memory allocated on a node; zero for an unknown node.
  NodeAmount nodeUsed(std::string_view node) const;

  struct State;  // internal to scheduler/
  const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace egpu::scheduler
