// Selects the pods that choose the node of a claim that many pods share. A claim that waits for its first consumer is
// decided by a pod that uses it. If no node suits, each change would make every one of these pods search all nodes. So
// only a few of them search:
//
//   up to kMaxPods pods use the claim   all of them
//   more                                the oldest of each set of equal pods; of those always the kMaxFirst oldest, and
//                                       kMaxNext more in each round, until all have searched
//
//   pods p0 … p99 of one Deployment and q of another one: p0 and q choose; p1 … p99 follow once the claim has a node
//
// Two pods are equal if they agree in all fields that decide which nodes suit them: claims, requests, node selector,
// affinity, tolerations, volumes, priority, scheduler. Pods whose node another scheduler chooses take part in no round.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/cache/stores.h"
#include "controller/reconcile/pod/chosen_nodes.h"
#include "controller/reconcile/retry/unschedulable_queue.h"
#include "controller/reconcile/timeouts.h"

namespace egpu::reconcile {

/// Thread-safe. In memory only; recomputed from the pods after a restart.
class ConsumerRounds {
 public:
  static constexpr std::size_t kMaxPods = 8;
  static constexpr std::size_t kMaxFirst = 4;
  static constexpr std::size_t kMaxNext = 4;

  ConsumerRounds(base::Clock& clock, const Timeouts& timeouts, const ChosenNodes& chosen)
      : clock_(clock), timeouts_(timeouts), chosen_(chosen) {}

  struct Choosers {
    std::vector<core::ObjectKey> pods;  ///< consumers that choose now, and pods whose scheduler chooses
    bool inRounds = false;              ///< other pods choose after Timeouts::consumerRoundInterval
  };
  Choosers choosersOf(const cache::Stores& stores, const cache::Claim& claim);
  /// True if the pod, a consumer of the claim, chooses the claim's node now.
  bool chooses(const cache::Stores& stores, const cache::Claim& claim, const core::Pod& pod);
  /// True if no older pod is a consumer of the claim.
  bool isOldest(const cache::Stores& stores, const cache::Claim& claim, const core::Pod& pod);
  /// Describes the rounds, for people; empty if all pods of the claim choose.
  std::string text(const core::ObjectKey& claim) const;

  /// Called when the pod was created, deleted or changed. claims: those that it names, or named.
  void podChanged(const cache::Stores& stores, const core::ObjectKey& pod, const std::set<std::string>& claims);
  /// Drops the state of a claim that has a device or is gone.
  void forgetClaim(const std::string& claimUid);
  /// Number of claims with state; for tests.
  std::size_t claims() const;

 private:
  /// Order of the consumers of one claim: the oldest first.
  using PodOrder = std::pair<Age, std::string>;
  /// A set of equal pods.
  struct Kind {
    core::Pod pod;               ///< reduced to the fields that make pods equal
    std::set<PodOrder> members;  ///< never empty
  };
  using Kinds = std::multimap<std::size_t, Kind>;  ///< by a hash of the pod
  struct ConsumerPosition {
    PodOrder order;
    Kinds::iterator kind;  ///< end: another scheduler chooses its node
  };
  /// Consumers of one claim with more than kMaxPods pods.
  class Shared {
   public:
    void put(const cache::Stores& stores, const core::Pod& pod, const ChosenNodes& chosen);
    void remove(const std::string& pod);
    Choosers choosers(const std::string& namespace_, std::size_t round) const;
    bool chooses(const std::string& pod, std::size_t round);
    bool isBehindAnother(const PodOrder& order) const;
    std::size_t pods() const { return positions_.size(); }
    bool inRounds() const { return first_.size() > kMaxFirst + kMaxNext; }
    std::string claimUid;

   private:
    /// Returns the kind of that pod; adds one if the pod is equal to no other.
    Kinds::iterator kindFor(core::Pod pod);
    /// Returns the range of positions in first_ whose pods choose in that round.
    std::pair<std::size_t, std::size_t> next(std::size_t round) const;
    /// First and last pod of that range, recomputed for another round and after a change.
    struct Window {
      std::size_t round = 0;
      PodOrder first, last;
    };
    const Window& windowOf(std::size_t round);

    Kinds kinds_;
    std::set<PodOrder> first_;                           ///< the oldest pod of each kind
    std::optional<Window> window_;                       ///< reset by each change
    std::map<PodOrder, bool> left_;                      ///< pods whose scheduler chooses their node; true: gated
    std::map<std::string, ConsumerPosition> positions_;  ///< by pod name
  };
  /// Returns null if all pods of the claim choose.
  Shared* sharedBy(const cache::Stores& stores, const cache::Claim& claim) EGPU_REQUIRES(mutex_);
  std::size_t currentRound() const {
    return static_cast<std::size_t>(clock_.now().time_since_epoch() / timeouts_.consumerRoundInterval);
  }

  base::Clock& clock_;
  const Timeouts& timeouts_;
  const ChosenNodes& chosen_;
  mutable base::Mutex mutex_;
  std::map<core::ObjectKey, Shared> shared_ EGPU_GUARDED_BY(mutex_);  ///< by claim
};

}  // namespace egpu::reconcile
