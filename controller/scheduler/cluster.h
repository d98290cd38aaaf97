// What the scheduler believes: nodes, cards and what is taken of each, with indexes kept up to date by event.
// Pure state: no I/O, locks, clocks. Not thread-safe; the cache serialises access. Copyable for simulation.
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
  bool schedulable = true;  ///< not cordoned, ready; a node without a Node object is not schedulable
  int64_t cpuMilli = 0;     ///< allocatable CPU, thousandths; 0 = unknown, never a constraint
  int64_t memory = 0;       ///< allocatable memory, bytes; 0 = unknown, never a constraint
  bool operator==(const NodeInfo&) const = default;
};

struct CardInfo {
  std::string name;  ///< object name
  v1alpha::Card card;
  bool healthy = true;  ///< false: quarantined; existing takes stay
};

/// A card by its object name. A decision also knows where it found the card, which spares the look-up as long as the
/// card stands there.
struct CardRef {
  static constexpr uint32_t kNoHint = UINT32_MAX;
  std::string_view name;
  uint32_t hint = kNoHint;

  CardRef(std::string_view n, uint32_t h = kNoHint) : name(n), hint(h) {}
  CardRef(const std::string& n) : name(n) {}
  CardRef(const char* n) : name(n) {}
};

/// A read-only view of one card. Its texts are valid until the cluster changes.
struct CardView {
  bool known = false;  ///< there is such a card; else the rest says nothing
  std::string_view name;
  std::string_view uuid;
  std::string_view node;  ///< empty if the card does not say
  std::string_view model;
  int64_t index = 0;
  bool healthy = true;
  Amount capacity;
  int64_t milliTflops = 0;  ///< of the whole card; 0 = unknown
  Amount used;              ///< Σ charged of takes
  int64_t claims = 0;       ///< number of takes
};

/// What somebody holds of a card, and of its node with it.
struct Taken {
  std::string uid;
  Amount charged;
  NodeAmount ofNode;
};

/// What was learned of the demand (state/demand.h), for another cluster that shall decide alike.
struct Learned {
  struct Class {
    Request request;
    double weight = 0;  ///< in units of `unit`
  };
  std::vector<Class> classes;
  int64_t seen = 0;                  ///< requests
  double unit = 1;                   ///< what a request seen now weighs
  bool priced = false;               ///< the fragmentation policy has prices
  std::vector<v1alpha::Card> types;  ///< model and amounts of every type of card met so far, in their order
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
  /// Adds a card or changes its capacity, node or health; takes stay.
  void upsertCard(const CardInfo& card);
  /// Forgets a card and its takes.
  void removeCard(std::string_view name);
  /// Records that a device takes this much (charged) of a card; replaces an earlier take of the same device. Unknown
  /// card: ignored, false. `ofNode` is what goes off the CPU and memory of the card's node with it, and comes back with
  /// it: a device of several cards gives it with one of them.
  bool take(CardRef card, std::string_view deviceUid, Amount charged, NodeAmount ofNode = {});
  /// Forgets a take and what it took of the node; absent = no-op.
  void giveBack(CardRef card, std::string_view deviceUid);
  /// Records that a pod that takes no card takes this much of a node; replaces an earlier amount of the same uid. It
  /// is no claim. No such Node object: ignored, false. Removing the node forgets it.
  bool takeOfNode(std::string_view node, std::string_view uid, NodeAmount amount);
  /// Forgets it; absent = no-op.
  void giveBackOfNode(std::string_view node, std::string_view uid);

  /// A request is about to be decided. The fragmentation policy learns from it what is asked for (demand.h): call it
  /// once per request, whatever its policy and whether or not it fits, before the first decide() for it.
  void observe(const Request& request);

  Learned learned() const;
  /// Of an empty cluster: it learned this. Then come its nodes, cards and takes, then reprice().
  void learn(const Learned& learned);
  /// The fragmentation policy's prices, if it has any, are made anew, and what was decided before no longer matters:
  /// what is decided from here on depends on learned(), on what is there and taken, and on what comes.
  void reprice();

  std::size_t nodeCount() const;
  /// Nodes that have cards.
  std::size_t gpuNodeCount() const;
  std::size_t cardCount() const;
  CardView findCard(std::string_view name) const;
  /// A card as it was described, in full.
  std::optional<v1alpha::Card> describe(std::string_view name) const;
  /// Who holds what of a card, by uid.
  std::vector<Taken> takes(std::string_view card) const;
  /// Card object names of a node, by index then uuid.
  std::vector<std::string> cardsOf(std::string_view node) const;
  std::vector<std::string> nodes() const;
  /// Cards that do not say on which node they are.
  std::vector<std::string> cardsOfNoNode() const;
  /// Nothing if there is no Node object of that name.
  std::optional<NodeInfo> describeNode(std::string_view name) const;
  bool nodeSchedulable(std::string_view node) const;
  /// What pods take of a node's CPU and memory; zero if the node is not known.
  NodeAmount nodeUsed(std::string_view node) const;

  struct State;  // internal to scheduler/
  const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace egpu::scheduler
