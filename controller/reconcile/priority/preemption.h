// Preemption: who has to make room for a claim of higher priority, and how its room is kept until they are gone. Carried out by
// the claims themselves: the preemptor says in its status.nominated what it is to get and which devices have to go (V1); each of
// those claims does the rest for itself (claim/preempted.cpp), as long as it is named.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "controller/base/clock.h"
#include "controller/cache/cluster_view.h"
#include "controller/reconcile/priority/plan_turns.h"
#include "controller/reconcile/priority/priority.h"
#include "controller/reconcile/priority/shared_plans.h"

namespace egpu::reconcile {

/// The claim that has the device and may have to make room, or null: its class says preemptible, its reclaimPolicy is Delete, it
/// is Bound to a device of its own, neither it nor its device is going or lost, and no ResourceClaim that somebody made by hand has it.
/// A member of a gang has to only with all other members that may (VictimGang).
cache::Store<cache::Claim>::Ptr preemptibleClaim(const cache::Stores& stores, const cache::Gpu& device);
/// Likewise the claim that may be moved: its class says movable, and nobody's need sends it away already.
cache::Store<cache::Claim>::Ptr movableClaim(const cache::Stores& stores, const cache::Gpu& device);
/// Its annotation says that it is to leave the device that it has.
bool asksToMove(const cache::Claim& claim, const cache::Gpu& device);
/// And it may: as movableClaim(), whether it is on its way or not.
bool mayMove(const cache::Stores& stores, const cache::Claim& claim, const cache::Gpu& device);
/// What a move's mark (V2) says, and how it is told from one that makes room: by its first words.
std::string textOfMove(const std::string& since);
bool markedToMove(const cache::Gpu& device);

/// Claims that are of use together only, and what they ask for; one of each per claim.
struct AskedTogether {
  std::vector<cache::Store<cache::Claim>::Ptr> claims;
  std::vector<cache::ClusterView::Ask> asks;
  std::vector<cache::ClusterView::GangPlace> places;
  const std::vector<scheduler::TopologyGroup>* within = nullptr;  ///< as in ClusterView::decideGang()
};

/// The gang that a bound claim is of. Nothing too if its annotations are wrong, or the PodGroup is not there.
std::optional<core::ObjectKey> gangOfHolder(const cache::Stores& stores, const cache::Claim& claim);
/// Claims that make room together: the members of a gang of which preemptibleClaim() names the devices, or one claim of none. A
/// member whose class is not preemptible stays, and exempts no other.
struct VictimGang {
  core::ObjectKey gang;              ///< gangNamedBy(); without name: none
  std::vector<std::string> devices;  ///< names
  std::int64_t priority = 0;         ///< the lowest of its members'
};
VictimGang victimGangOf(const cache::Stores& stores, const cache::Gpu& device, const cache::Claim& holder);
/// Devices that leave together: those of a victim's gang, else the victim's own.
cache::ClusterView::VictimGroup victimGroups(const cache::Stores& stores);

/// Thread-safe. Stores, view and clock must outlive it.
class Preemption {
 public:
  Preemption(const cache::Stores& stores, cache::ClusterView& cluster, base::Clock& clock)
      : stores_(stores), cluster_(cluster), clock_(clock), shared_(clock), turns_(clock) {}

  /// Held while a step plans and writes what was planned for that claim: two plans must not name the same victims for room that
  /// only one can have. Not owned: another claim's plan is made, or is not yet written.
  std::unique_lock<std::mutex> plans(const std::string& claimUid);
  static constexpr std::chrono::milliseconds kOthersPlan{200};  ///< until another look then
  /// Results of the last checks of gangs' plans.
  SharedPlans& shared() { return shared_; }
  /// What the claim is to get, and who has to go. What it has been nominated for already stays, less those who need not go any
  /// more, unless budgets hold all of it up and there is another way. Nothing: nobody's going helps, or nobody was found in kLooksFor, or
  /// before the stop. Only with plans().
  core::Rare<v1alpha::Nomination> planFor(const cache::Store<cache::Claim>::Ptr& claim,
                                          const cache::ClusterView::Ask& ask, const scheduler::NodePredicate& suits,
                                          const std::stop_token& stop);
  /// Likewise for all of them, or for none: one nomination per claim, or nothing. Each victim is named by the first of them that goes to its
  /// node. They preempt with the lowest of their priorities.
  std::vector<v1alpha::Nomination> planForAll(const AskedTogether& asked, const std::stop_token& stop);
  /// The plan of these claims of which nominations are not yet written, with the number of those that are. Otherwise empty,
  /// and there is no such plan any more. Only with plans().
  std::pair<std::vector<v1alpha::Nomination>, std::size_t> unwritten(const AskedTogether& asked);
  /// The first nominations of this plan are written. The next step of the same claims writes the others. Only with plans().
  void leaveUnwritten(const AskedTogether& asked, std::vector<v1alpha::Nomination> rooms, std::size_t written);
  /// Most processor time of one search for victims, but for the copy of the cluster and one decision as it is. A worker
  /// is held up by no more.
  static constexpr std::chrono::milliseconds kLooksFor{800};
  /// How long the claim is not to be planned for: it has just been found that nobody's going helps, which is a look at the
  /// whole cluster, or such looks, whoever they were for, have had their share of the time. 0 = it may be.
  std::chrono::milliseconds restsFor(const std::string& claimUid) const;
  /// For people, what has been found of them and nothing else since: "nobody has to go for <whom>: …", whose going would not help all of
  /// its <parts>, or that the search was cut short. Empty: that it helps, or nothing.
  std::string inVain(const std::string& claimUid, const std::string& whom, const std::string& parts) const;
  /// Time after which the claim asks again without an event; 0 = no such time. While searches rest the claim waits for
  /// its turn, and asks again by itself only if it loses it. Otherwise its own rest, if there may be candidates after it
  /// that no event tells of. order: with the claim's uid. queueKey: key whose step makes the search.
  std::chrono::milliseconds putOff(const QueueOrder& order, const std::string& queueKey);
  PlanTurns& turns() { return turns_; }
  const PlanTurns& turns() const { return turns_; }
  /// PlanTurns::next(), once searches do not rest.
  PlanTurns::Next giveTurn();
  /// For who reads that namespace, and maybe no other: who goes, and what holds that up. Claims of other namespaces are counted.
  /// rooms: of one claim, or of several that are planned for together.
  std::string text(std::span<const v1alpha::Nomination> rooms, const std::string& reader) const;
  /// Likewise, for whom room is made.
  std::string textFor(const cache::Claim& preemptor, const std::string& reader) const;

  /// The claim for which the device has to go, or null. The one that comes first, of those whose priority is higher.
  cache::Store<cache::Claim>::Ptr preemptorOf(const cache::Gpu& device, const cache::Claim& holder) const;

  /// The budgets of a pod's don't let it go: the device's claim is passed over for a while if others would do.
  void heldUp(const std::string& device, const std::string& why);
  /// How long until it is tried again.
  static constexpr std::chrono::milliseconds kHeldUpFor{15'000};
  /// The longest of that for any of these devices; 0 = none is held up.
  std::chrono::milliseconds heldUpFor(const std::vector<std::string>& victims) const;
  /// One of these devices is marked to make room. One that moves is not: nobody has asked the budgets of its pods.
  bool begun(const std::vector<std::string>& victims) const;

 private:
  struct HeldUp {
    base::Clock::Steady until;
    std::string why;
  };
  struct Unwritten {
    std::vector<std::string> claimUids;
    std::vector<v1alpha::Nomination> rooms;
    std::size_t written = 0;
    base::Clock::Steady until;  ///< others plan after it: the step that would write the others does not come
  };
  std::optional<HeldUp> heldUp(const std::string& device) const;
  std::set<std::string> heldUpNow() const;  ///< names of devices
  /// Why the device's pods could not be evicted. It outlasts the wait by as much again, so that messages do not alternate
  /// while the eviction is tried again. Empty: no eviction was refused lately.
  std::string lastRefusal(const std::string& device) const;
  /// What is left of the nominations that the claims have; nothing if they are of no use.
  std::vector<v1alpha::Nomination> standing(const AskedTogether& asked) const;
  /// Without those who need not go any more; nothing if nobody has to.
  std::vector<v1alpha::Nomination> needed(const AskedTogether& asked, std::vector<v1alpha::Nomination> rooms) const;
  /// It failed for it, or its claim is gone or going and no pod would keep it: a claim of a template's goes with its pod, so the
  /// claim of a pod that was evicted does. Its room is the preemptor's as soon as it is free.
  bool leaves(const cache::Gpu& device) const;
  std::vector<v1alpha::Nomination> fresh(const AskedTogether& asked, const std::stop_token& stop);
  /// Who may have to go for one of that priority, by uid of the device.
  struct Candidate {
    std::string device;
    scheduler::Standing standing;
    std::string gang;  ///< key of VictimGang::gang; empty: of none
  };
  struct Candidates {
    std::unordered_map<std::string, Candidate> byDevice;
    std::map<std::string, VictimGang> gangs;  ///< by their key
    bool moreSoon =
        false;  ///< a budget holds another claim, or it is not Bound yet: it may become a candidate without an event
  };
  Candidates candidatesFor(const AskedTogether& asked) const;
  /// Likewise without gangs, then, if that does not help, with them.
  std::vector<v1alpha::Nomination> searchGangsLast(const AskedTogether& asked, const Candidates& candidates,
                                                   const scheduler::Enough& enough, bool& cut) const;
  /// Who has to go, by the asks' nodes. Nothing: nobody's going helps, or, cut short, none was found.
  std::vector<v1alpha::Nomination> search(const AskedTogether& asked, const Candidates& candidates,
                                          const scheduler::Enough& enough, bool& cut) const;
  /// Uids of all pods that use one of the claims.
  std::set<std::string> podsOf(const AskedTogether& asked) const;

  enum class Found { somebody, nobody, cutShort };
  /// took: processor time of the search. moreSoon: as of the candidates.
  void looked(const std::string& claimUid, base::Clock::Steady::duration took, Found found, bool moreSoon);
  std::chrono::milliseconds ownRest(const std::string& claimUid) const;  // with mutex_ held
  std::chrono::milliseconds until(base::Clock::Steady time) const;       // not negative

  const cache::Stores& stores_;
  cache::ClusterView& cluster_;
  base::Clock& clock_;
  SharedPlans shared_;
  PlanTurns turns_;
  std::optional<Unwritten> unwritten_;  ///< guarded by planning_
  std::mutex planning_;
  mutable std::mutex mutex_;
  std::map<std::string, HeldUp> heldUp_;  ///< by device; guarded by mutex_
  struct InVain {
    base::Clock::Steady until;
    std::chrono::milliseconds rest;
    bool cut = false;       ///< not all was tried
    bool moreSoon = false;  ///< another search after the rest may find candidates that this one lacked
  };
  std::map<std::string, InVain> restingUntil_;  ///< by uid of the claim; guarded by mutex_
  base::Clock::Steady restUntil_{};             ///< after the last search, for any claim; guarded by mutex_
};

}  // namespace egpu::reconcile
