// Which pods choose the node of a claim that many pods share. A claim of a class that waits for its first consumer is
// decided by a pod that uses it. Where no node suits, each change would make every one of these pods search all nodes.
// So only a few of them search:
//
//   up to kMaxPods pods use the claim   all of them
//   more                                of equal pods the oldest one alone; of those the kMaxFirst oldest ones, always,
//                                       and kMaxNext others, which change every kTurnInterval until all had their turn
//
//   pods p0 … p99 of one Deployment and q of another one: p0 and q choose; p1 … p99 follow once the claim has a node
//
// Two pods are equal if nothing differs that decides which nodes suit them: claims, requests, node selector, affinity,
// tolerations, volumes, priority, scheduler. Pods whose node another scheduler chooses are not counted.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/base/clock.h"
#include "controller/cache/stores.h"
#include "controller/reconcile/claim/waiting_for_room.h"
#include "controller/reconcile/pod/chosen_nodes.h"

namespace egpu::reconcile {

/// Thread-safe. Lost with the process, which costs nothing: it is computed from the pods.
class ConsumerTurns {
 public:
  static constexpr std::size_t kMaxPods = 8;
  static constexpr std::size_t kMaxFirst = 4;
  static constexpr std::size_t kMaxNext = 4;
  static constexpr std::chrono::milliseconds kTurnInterval{10'000};

  ConsumerTurns(base::Clock& clock, const ChosenNodes& chosen) : clock_(clock), chosen_(chosen) {}

  struct Choosers {
    std::vector<core::ObjectKey> pods;  ///< consumers that choose now, and those whose scheduler chooses
    bool inTurns = false;               ///< others choose after kTurnInterval
  };
  Choosers choosersOf(const cache::Stores& stores, const cache::Claim& claim);
  /// Whether the pod, a consumer of the claim, chooses its node now.
  bool chooses(const cache::Stores& stores, const cache::Claim& claim, const core::Pod& pod);
  /// Whether no older pod is a consumer of the claim.
  bool isOldest(const cache::Stores& stores, const cache::Claim& claim, const core::Pod& pod);
  /// For people; empty if all pods of the claim choose.
  std::string text(const core::ObjectKey& claim) const;

  /// The pod came, went or changed. claims: those that it names, or named.
  void podChanged(const cache::Stores& stores, const core::ObjectKey& pod, const std::set<std::string>& claims);
  /// The claim has a device, or is gone.
  void forgetClaim(const std::string& claimUid);
  /// Claims of which anything is remembered; for tests.
  std::size_t claims() const;

 private:
  /// Position among the consumers of one claim: the oldest first.
  using Turn = std::pair<Age, std::string>;
  /// Equal pods.
  struct Kind {
    core::Pod pod;         ///< with nothing but what makes them equal
    std::set<Turn> turns;  ///< never empty
  };
  using Kinds = std::multimap<std::size_t, Kind>;  ///< by a hash of the pod
  struct Known {
    Turn turn;
    Kinds::iterator kind;  ///< end: another scheduler chooses its node
  };
  /// Consumers of one claim with more than kMaxPods pods.
  class Shared {
   public:
    void put(const cache::Stores& stores, const core::Pod& pod, const ChosenNodes& chosen);
    void remove(const std::string& pod);
    Choosers choosers(const std::string& namespace_, std::size_t turn) const;
    bool chooses(const std::string& pod, std::size_t turn);
    bool isBehindAnother(const Turn& turn) const;
    std::size_t pods() const { return known_.size(); }
    bool inTurns() const { return first_.size() > kMaxFirst + kMaxNext; }
    std::string claimUid;

   private:
    /// The kind of that pod; a new one if it is equal to no other.
    Kinds::iterator kindFor(core::Pod pod);
    /// Positions in first_ of the pods that have their turn.
    std::pair<std::size_t, std::size_t> next(std::size_t turn) const;
    /// The first and the last pod of these positions, counted anew for another turn and after a change.
    struct Window {
      std::size_t turn = 0;
      Turn first, last;
    };
    const Window& windowOf(std::size_t turn);

    Kinds kinds_;
    std::set<Turn> first_;                ///< the oldest of each kind
    std::optional<Window> window_;        ///< nothing after a change
    std::map<Turn, bool> left_;           ///< pods whose scheduler chooses; true: gated
    std::map<std::string, Known> known_;  ///< by name of the pod
  };
  /// Null: all pods of the claim choose. With mutex_ held.
  Shared* sharedBy(const cache::Stores& stores, const cache::Claim& claim);
  std::size_t turnNow() const { return static_cast<std::size_t>(clock_.now().time_since_epoch() / kTurnInterval); }

  base::Clock& clock_;
  const ChosenNodes& chosen_;
  mutable std::mutex mutex_;
  std::map<core::ObjectKey, Shared> shared_;  ///< by claim; guarded by mutex_
};

}  // namespace egpu::reconcile
