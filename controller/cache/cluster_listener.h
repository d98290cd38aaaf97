// What the scheduler's picture is told to whoever keeps a record of it: every change and every decision, in the order
// in which they happen, so that the same calls on a copy of the picture give the same decisions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/decide.h"

namespace egpu::cache {

struct NodeGone {
  std::string name;
};
struct CardGone {
  std::string name;
};
/// `uid`: of the device, or "claim/<uid>" of a decision that is not yet written.
struct Took {
  std::string card, uid;
  scheduler::Amount charged;
};
struct GaveBack {
  std::string card, uid;
};
/// A claim asks for the first time: Cluster::observe().
struct Asked {
  scheduler::Request request;
};
/// The device is this claim's.
struct DeviceMade {
  std::string device, claim;  ///< uids
};
struct ClaimGone {
  std::string uid;
};
using Change = std::variant<scheduler::NodeInfo, NodeGone, scheduler::CardInfo, CardGone, Took, GaveBack, Asked,
                            DeviceMade, ClaimGone>;

/// What a decision was told of the nodes that it asked about. Of very many only one of the two lists is kept.
struct Suitability {
  static constexpr std::size_t kMost = 1024;  ///< nodes in a list

  std::vector<std::string> suited, refused;
  bool onlySuited = false;  ///< nodes in neither list don't suit; else they were not asked about
  bool lost =
      false;  ///< too many of both, or answers that changed meanwhile: what was decided can't be worked out again
};

struct Decided {
  struct Ask {
    std::string claimUid;
    std::string claim;  ///< "namespace/name"
    scheduler::Request request;
  };
  std::vector<Ask> asks;                       ///< on one node, all or none
  std::vector<scheduler::Decision> decisions;  ///< one per ask; none: nothing fits
  Suitability nodes;
  bool meanwhile = false;  ///< the picture changed while it was decided, or quotas, which are not told, had a say
};

/// Called inside the view's lock: must return at once, and call nothing of the view.
class ClusterListener {
 public:
  virtual ~ClusterListener() = default;
  /// Whether it wants all() before the next decision.
  virtual bool wantsAll() const = 0;
  /// The picture as it is. What is told next comes after it.
  virtual void all(const scheduler::Cluster& cluster) = 0;
  virtual void changed(Change change) = 0;
  virtual void decided(Decided decided) = 0;
};

/// Asks a predicate and notes its answers.
class AskedNodes {
 public:
  /// note: false: asks only. `suits` must outlive it.
  AskedNodes(const scheduler::NodePredicate& suits, bool note);
  AskedNodes(const AskedNodes&) = delete;
  AskedNodes& operator=(const AskedNodes&) = delete;

  const scheduler::NodePredicate& predicate() const { return noting_ ? noting_ : suits_; }
  Suitability take() const;

 private:
  bool note(std::string_view node);

  const scheduler::NodePredicate& suits_;
  scheduler::NodePredicate noting_;
  std::unordered_map<std::string, bool> answers_;
  bool changed_ = false;
};

/// The scheduler's cluster, whose changes are told. Not thread-safe.
class ToldCluster : public scheduler::Cluster {
 public:
  /// Null: nobody. Must outlive it.
  void tell(ClusterListener* listener) { listener_ = listener; }
  bool told() const { return listener_ != nullptr; }
  /// Of the changes so far, told or not.
  uint64_t changes() const { return changes_; }

  void upsertNode(const scheduler::NodeInfo& node);
  void removeNode(std::string_view name);
  void upsertCard(const scheduler::CardInfo& card);
  void removeCard(std::string_view name);
  bool take(scheduler::CardRef card, std::string_view deviceUid, scheduler::Amount charged);
  void giveBack(scheduler::CardRef card, std::string_view deviceUid);
  void observe(const scheduler::Request& request);

  /// What is no change of the picture itself.
  void note(Change change);
  /// Before a decision: the whole picture, if it is wanted.
  void show();
  void decided(Decided decided);

 private:
  ClusterListener* listener_ = nullptr;
  uint64_t changes_ = 0;
};

}  // namespace egpu::cache
