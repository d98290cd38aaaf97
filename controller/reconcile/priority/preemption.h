// Preemption: who has to make room for a claim of higher priority, and how its room is kept until they are gone. Carried out by
// the claims themselves: the preemptor says in its status.nominated what it is to get and which devices have to go (V1); each of
// those claims does the rest for itself (claim/preempted.cpp), as long as it is named.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "controller/base/clock.h"
#include "controller/cache/cluster_view.h"
#include "controller/reconcile/priority/priority.h"

namespace egpu::reconcile {

/// The claim that has the device and may have to make room, or null: its class says preemptible, its reclaimPolicy is Delete, it
/// is Bound to a device of its own, neither it nor its device is going or lost, and no ResourceClaim that somebody made by hand has it.
cache::Store<cache::Claim>::Ptr preemptibleClaim(const cache::Stores& stores, const cache::Gpu& device);
/// Likewise the claim that may be moved: its class says movable, and nobody's need sends it away already.
cache::Store<cache::Claim>::Ptr movableClaim(const cache::Stores& stores, const cache::Gpu& device);

/// Thread-safe. Stores, view and clock must outlive it.
class Preemption {
 public:
  Preemption(const cache::Stores& stores, cache::ClusterView& cluster, base::Clock& clock)
      : stores_(stores), cluster_(cluster), clock_(clock) {}

  /// Held while somebody plans and writes what was planned: two must not name the same victims for room that only one can have.
  /// Not to be had: another one does.
  std::unique_lock<std::mutex> plans() { return {planning_, std::try_to_lock}; }
  /// What the claim is to get, and who has to go. What it has been nominated for already stays, less those who need not go any
  /// more, unless budgets hold all of it up and there is another way. Nothing: nobody's going helps. Only with plans().
  core::Rare<v1alpha::Nomination> planFor(const cache::Claim& claim, const cache::ClusterView::Ask& ask,
                                          const scheduler::NodePredicate& suits);
  /// How long the claim is not to be planned for: it has just been found that nobody's going helps, which is a look at the
  /// whole cluster, or such looks, whoever they were for, have had their share of the time. 0 = it may be.
  std::chrono::milliseconds restsFor(const std::string& claimUid) const;
  /// The latter alone: then it was not looked for at all, and asks again after so long. Who asks later comes
  /// later; fresh: it has just come, and does not queue up behind those who have been put off before.
  std::chrono::milliseconds putOff(const std::string& claimUid, bool fresh = false);
  /// For who reads that namespace, and maybe no other: who goes, and what holds that up. Claims of other namespaces are counted.
  std::string text(const v1alpha::Nomination& nomination, const std::string& reader) const;
  /// Likewise, for whom room is made.
  std::string textFor(const cache::Claim& preemptor, const std::string& reader) const;

  /// The claim for which the device has to go, or null. The one that comes first, of those whose priority is higher.
  cache::Store<cache::Claim>::Ptr preemptorOf(const cache::Gpu& device, const cache::Claim& holder) const;

  /// The budgets of a pod's don't let it go: the device's claim is passed over for a while if others would do.
  void heldUp(const std::string& device, const std::string& why);
  /// How long until it is tried again.
  static constexpr std::chrono::milliseconds kHeldUpFor{15'000};
  /// The longest of that for any of its victims; 0 = none is held up.
  std::chrono::milliseconds heldUpFor(const v1alpha::Nomination& nomination) const;
  /// One of its victims is marked.
  bool begun(const v1alpha::Nomination& nomination) const;

 private:
  struct HeldUp {
    base::Clock::Steady until;
    std::string why;
  };
  std::optional<HeldUp> heldUp(const std::string& device) const;
  /// What is left of the nomination that the claim has; nothing if it is of no use.
  core::Rare<v1alpha::Nomination> standing(const cache::Claim& claim, const cache::ClusterView::Ask& ask,
                                           const scheduler::NodePredicate& suits) const;
  /// It failed for it, or its claim is gone or going and no pod would keep it: a claim of a template's goes with its pod, so the
  /// claim of a pod that was evicted does. Its room is the preemptor's as soon as it is free.
  bool leaves(const cache::Gpu& device) const;
  core::Rare<v1alpha::Nomination> fresh(const cache::Claim& claim, const cache::ClusterView::Ask& ask,
                                        const scheduler::NodePredicate& suits);
  /// Who may have to go for one of that priority, by uid of the device.
  struct Candidate {
    std::string device;
    scheduler::Standing standing;
  };
  using Candidates = std::unordered_map<std::string, Candidate>;
  Candidates candidatesFor(const cache::Claim& claim, int64_t priority) const;
  /// A pod names both: it would have neither.
  bool shareAPod(const cache::Claim& a, const cache::Claim& b) const;

  void looked(const std::string& claimUid, base::Clock::Steady began, bool inVain);
  std::chrono::milliseconds ownRest(const std::string& claimUid) const;  // with mutex_ held
  std::chrono::milliseconds until(base::Clock::Steady time) const;       // not negative

  const cache::Stores& stores_;
  cache::ClusterView& cluster_;
  base::Clock& clock_;
  std::mutex planning_;
  mutable std::mutex mutex_;
  std::map<std::string, HeldUp> heldUp_;                     ///< by device; guarded by mutex_
  std::map<std::string, base::Clock::Steady> restingUntil_;  ///< by uid of the claim; guarded by mutex_
  /// After the last look, for whomever; guarded by mutex_.
  struct Rest {
    base::Clock::Steady until{};
    base::Clock::Steady next{};            ///< when the next one that is put off may ask
    base::Clock::Steady::duration each{};  ///< a look and its rest
  };
  Rest rest_;
};

}  // namespace egpu::reconcile
