// Observer of the scheduler's cluster state. It receives every change and every decision, in the order in which they
// happen, so that the same calls on a copy of the state give the same decisions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/decide.h"

namespace egpu::allocator {

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
  std::string isolation{};  ///< mode of the card's shares afterwards; empty = none
};
/// The isolation mode of the shares on a card changed.
struct CardMode {
  std::string card, mode;
};
struct GaveBack {
  std::string card, uid;
};
/// First attempt of a claim: Cluster::observe().
struct Asked {
  scheduler::Request request;
};
/// The device belongs to this claim.
struct DeviceMade {
  std::string device, claim;  ///< uids
};
struct ClaimGone {
  std::string uid;
};
/// Claim of a holder (Took::uid), and its usage. Reported before its first Took, and again when it changes. Accounts
/// need it, decisions do not.
struct HolderChanged {
  std::string uid;        ///< as in Took
  std::string claim;      ///< "namespace/name"; empty = a device without a claim
  std::string claimUid;   ///< empty = not known
  std::string className;  ///< empty = not known
  int64_t usedCore = -1;  ///< usage in the claim's status, milli-cards of all its cards together; -1 = not known
  bool operator==(const HolderChanged&) const = default;
};
/// Claims of a pod that has a node and has not ended; replaces its earlier report. Accounts need it, decisions do not.
struct PodChanged {
  std::string pod;                  ///< "namespace/name"
  std::vector<std::string> claims;  ///< names, in the namespace of the pod; empty = it has ended
  bool operator==(const PodChanged&) const = default;
};
using Change = std::variant<scheduler::NodeInfo, NodeGone, scheduler::CardInfo, CardGone, Took, GaveBack, Asked,
                            DeviceMade, ClaimGone, CardMode, HolderChanged, PodChanged>;

/// Present holders and pods, for a snapshot. The values never change, so that a copy is cheap.
struct ClaimUsers {
  std::vector<std::shared_ptr<const HolderChanged>> holders;
  std::vector<std::shared_ptr<const PodChanged>> pods;
};

/// Answers of a decision's node predicate. If there are very many nodes, only one of the two lists is kept.
struct PredicateTrace {
  static constexpr std::size_t kMax = 1024;  ///< length of a list

  std::vector<std::string> suited, refused;
  bool onlySuited = false;  ///< true: nodes in neither list do not suit; false: the predicate was not called for them
  bool lost = false;  ///< both lists were too long, or answers changed during the decision: it cannot be reproduced
};

struct Decided {
  struct SchedulingRequest {
    std::string claimUid;
    std::string claim;  ///< "namespace/name"
    scheduler::Request request;
    std::string className{};
  };
  std::vector<SchedulingRequest> asks;         ///< placed on one node, all or none
  std::vector<scheduler::Decision> decisions;  ///< one per request; empty if nothing fits
  PredicateTrace nodes;
  /// The state changed during the decision, or it depends on state that is not reported, such as quotas.
  bool meanwhile = false;
};

/// Called with the allocator's lock held: must return at once, and must not call the allocator.
class ClusterListener {
 public:
  virtual ~ClusterListener() = default;
  /// True if the listener needs all() before the next decision.
  virtual bool wantsAll() const = 0;
  /// Receives the current cluster, with the users of its cards. Later changes apply to them.
  virtual void all(const scheduler::Cluster& cluster, ClaimUsers users) = 0;
  virtual void changed(Change change) = 0;
  virtual void decided(Decided decided) = 0;
};

/// Calls a predicate and records its answers.
class RecordingPredicate {
 public:
  /// note: false = does not record. `suits` must outlive this object.
  RecordingPredicate(const scheduler::NodePredicate& suits, bool note);
  RecordingPredicate(const RecordingPredicate&) = delete;
  RecordingPredicate& operator=(const RecordingPredicate&) = delete;

  const scheduler::NodePredicate& predicate() const { return noting_ ? noting_ : suits_; }
  /// Returns the answers so far.
  PredicateTrace trace() const;

 private:
  bool note(std::string_view node);

  const scheduler::NodePredicate& suits_;
  scheduler::NodePredicate noting_;
  std::unordered_map<std::string, bool> answers_;
  bool changed_ = false;
};

/// The scheduler's cluster, which reports its changes to a listener. Not thread-safe.
class ObservedCluster : public scheduler::Cluster {
 public:
  /// Null = no listener. Must outlive this object.
  void setListener(ClusterListener* listener) { listener_ = listener; }
  bool hasListener() const { return listener_ != nullptr; }
  /// Number of changes so far, whether reported or not.
  uint64_t changes() const { return changes_; }

  void upsertNode(const scheduler::NodeInfo& node);
  void removeNode(std::string_view name);
  void upsertCard(const scheduler::CardInfo& card);
  void removeCard(std::string_view name);
  bool take(scheduler::CardRef card, std::string_view deviceUid, scheduler::Amount charged,
            std::optional<std::string_view> isolation = {});
  /// Returns true if the card has shares and their mode changed.
  bool noteMode(std::string_view card, std::string_view mode);
  void giveBack(scheduler::CardRef card, std::string_view deviceUid);
  void observe(const scheduler::Request& request);

  /// Reports a change of data that the scheduler's cluster does not contain, such as a deleted claim.
  void note(Change change);
  /// Reports the claim of a holder, if it is new. No-op without a listener.
  void reportHolder(HolderChanged holder);
  /// Records the holder of a decision, for snapshots. Not reported: the decision was.
  void recordHolder(HolderChanged holder);
  /// Reports a holder of which only the claim's name is known. No-op if the holder was reported or recorded.
  void reportHolderIfUnknown(const std::string& uid, const std::string& claim);
  /// The holder has nothing any more. Not reported: giveBack() was.
  void forgetHolder(const std::string& uid) { holders_.erase(uid); }
  /// Reports the claims of a pod, if they are new. No-op without a listener.
  void reportPod(PodChanged pod);
  /// Reports the whole cluster, if the listener needs it. Call before a decision.
  void show();
  void decided(Decided decided);

 private:
  ClusterListener* listener_ = nullptr;
  uint64_t changes_ = 0;
  // Reported and still valid; empty without a listener.
  std::unordered_map<std::string, std::shared_ptr<const HolderChanged>> holders_;  ///< by uid
  std::unordered_map<std::string, std::shared_ptr<const PodChanged>> pods_;        ///< by name
};

}  // namespace egpu::allocator
