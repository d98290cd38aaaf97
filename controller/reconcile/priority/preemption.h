// Preemption: selects victims for a claim of higher priority and nominates their capacity. The claims carry it out: the
// preemptor's status.nominated holds the nominated capacity and the devices to release (V1); the step of each victim
// does the rest (priority/victim.h) as long as the nomination names its device.
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

#include "controller/allocator/allocator.h"
#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/reconcile/priority/plan_queue.h"
#include "controller/reconcile/priority/priority.h"
#include "controller/reconcile/priority/shared_plans.h"
#include "controller/reconcile/timeouts.h"

namespace egpu::reconcile {

/// Returns the claim that holds the device if it may be evicted, else null. Its class must be preemptible and its
/// reclaimPolicy Delete. It must be Bound to a device of its own; neither may be lost or being deleted. It must not be
/// made for a ResourceClaim that was created by hand. A member of a gang is evicted only with all other members that
/// may be (VictimGang).
cache::Store<cache::Claim>::Ptr preemptibleClaim(const cache::Stores& stores, const cache::Gpu& device);
/// Returns the claim that holds the device if it may be moved, else null: its class is movable, it is in no gang, no
/// preemptor names the device, and otherwise as preemptibleClaim().
cache::Store<cache::Claim>::Ptr movableClaim(const cache::Stores& stores, const cache::Gpu& device);
/// True if the claim's annotation requests that it leaves this device.
bool asksToMove(const cache::Claim& claim, const cache::Gpu& device);
/// True if the claim holds the device and may be moved as by movableClaim(), whether it is being evicted or not.
bool mayMove(const cache::Stores& stores, const cache::Claim& claim, const cache::Gpu& device);
/// Message of a move's mark (V2). Its first words distinguish it from the mark of a victim: markedToMove().
std::string textOfMove(const std::string& since);
bool markedToMove(const cache::Gpu& device);

/// Claims that are of use only together, and their requests; one element per claim.
struct AskedTogether {
  std::vector<cache::Store<cache::Claim>::Ptr> claims;
  std::vector<allocator::Allocator::SchedulingRequest> asks;
  std::vector<allocator::Allocator::GangMemberConstraints> places;
  const std::vector<scheduler::TopologyGroup>* within = nullptr;  ///< as in Allocator::decideGang()
};

/// Returns the gang of a bound claim. nullopt: none, its annotations are invalid, or its PodGroup does not exist.
std::optional<core::ObjectKey> gangOfHolder(const cache::Stores& stores, const cache::Claim& claim);
/// Claims that are evicted together: the members of a gang whose devices preemptibleClaim() allows, or a single claim.
/// A member whose class is not preemptible stays, and does not exempt the others.
struct VictimGang {
  core::ObjectKey gang;              ///< gangNamedBy(); without name: no gang
  std::vector<std::string> devices;  ///< names
  std::int64_t priority = 0;         ///< the lowest of its members
};
VictimGang victimGangOf(const cache::Stores& stores, const cache::Gpu& device, const cache::Claim& holder);
/// Returns a function from a victim to the devices that are released with it: those of its gang, else its own.
allocator::Allocator::VictimGroup victimGroups(const cache::Stores& stores);

/// Thread-safe. Stores, allocator and clock must outlive it.
class Preemption {
 public:
  Preemption(const cache::Stores& stores, allocator::Allocator& cluster, base::Clock& clock, const Timeouts& timeouts)
      : stores_(stores),
        cluster_(cluster),
        clock_(clock),
        timeouts_(timeouts),
        shared_(clock, timeouts),
        planQueue_(clock, timeouts) {}

  /// Lock that a step holds while it plans for the claim and writes the plan. Two plans must not name the same victims
  /// for capacity that only one of them can have. Not owned: another claim is being planned for, or its plan is not yet
  /// written.
  std::unique_lock<base::Mutex> tryLockPlanning(const std::string& claimUid);
  /// Results of the last checks of gangs' plans.
  SharedPlans& shared() { return shared_; }
  /// Returns the nominated capacity of the claim and its victims. An existing nomination stays, without victims that
  /// are no longer needed, unless a disruption budget blocks one of them before the first is marked and another plan
  /// exists. Nothing if no eviction helps, or if no victims are found within victimSearchTimeout or before the stop.
  /// Needs tryLockPlanning().
  core::HeapOptional<v1alpha::Nomination> planFor(const cache::Store<cache::Claim>::Ptr& claim,
                                                  const allocator::Allocator::SchedulingRequest& ask,
                                                  const scheduler::NodePredicate& suits, const std::stop_token& stop);
  /// Plans for all of the claims or for none: returns one nomination per claim, or nothing. Each victim is named by the
  /// first claim that goes to its node, or else by the first claim. The claims preempt with the lowest of their
  /// priorities.
  std::vector<v1alpha::Nomination> planForGroup(const AskedTogether& asked, const std::stop_token& stop);
  /// Returns the plan of these claims that is not completely written, with the number of nominations that are. Empty if
  /// there is none. The plan is forgotten in either case. Needs tryLockPlanning().
  std::pair<std::vector<v1alpha::Nomination>, std::size_t> unwritten(const AskedTogether& asked);
  /// Stores a plan whose first nominations are written. The next step of the same claims writes the others. Needs
  /// tryLockPlanning().
  void leaveUnwritten(const AskedTogether& asked, std::vector<v1alpha::Nomination> nominations, std::size_t written);
  /// Returns for how long no victims may be searched for the claim; 0 = they may be. Covers the claim's backoff after a
  /// search that found none, and the pause after all searches, which limits their share of the time.
  std::chrono::milliseconds searchBackoff(const std::string& claimUid) const;
  /// Explains, for people, why the last search found no victims: no eviction would help all `parts` of `whom`, or the
  /// search was cut short. Empty outside of the claim's backoff.
  std::string noVictimsMessage(const std::string& claimUid, const std::string& whom, const std::string& parts) const;
  /// Returns the time after which the claim asks again without an event; 0 = no such time. In backoff: the rest of it,
  /// if candidates may appear later without an event. While searches are paused: the claim waits for its turn, and asks
  /// again by itself only if it loses the turn. order: with the claim's uid. queueKey: key whose step makes the search.
  std::chrono::milliseconds delayForRateLimit(const QueueOrder& order, const std::string& queueKey);
  PlanQueue& planQueue() { return planQueue_; }
  const PlanQueue& planQueue() const { return planQueue_; }
  /// PlanQueue::next() with the remaining pause of searches.
  PlanQueue::NextPlan nextPlan();
  /// Describes the victims and the obstacles to their eviction, for readers of that namespace. They may be unable to
  /// read other namespaces, so claims there are only counted. nominations: of one claim, or of several that are planned
  /// for together.
  std::string text(std::span<const v1alpha::Nomination> nominations, const std::string& reader) const;
  /// Describes the preemptor for readers of that namespace, as text() does.
  std::string textFor(const cache::Claim& preemptor, const std::string& reader) const;

  /// Returns the preemptor that needs the device, or null: of the claims of higher priority that name it, the first in
  /// queue order.
  cache::Store<cache::Claim>::Ptr preemptorOf(const cache::Gpu& device, const cache::Claim& holder) const;

  /// Records that a disruption budget blocks the eviction of the device's pods. Other plans avoid the device for a
  /// while.
  void blockedByBudget(const std::string& device, const std::string& why);
  /// Returns the longest remaining time for any of these devices; 0 = none is blocked.
  std::chrono::milliseconds heldUpFor(const std::vector<std::string>& victims) const;
  /// True if one of these devices is marked for preemption. A mark of a move does not count: it checks no budgets.
  bool evictionStarted(const std::vector<std::string>& victims) const;

 private:
  struct HeldUp {
    base::Clock::Steady until;
    std::string why;
  };
  struct Unwritten {
    std::vector<std::string> claimUids;
    std::vector<v1alpha::Nomination> nominations;
    std::size_t written = 0;
    base::Clock::Steady until;  ///< other claims plan after it: the step that would write the rest does not come
  };
  std::optional<HeldUp> blockedByBudget(const std::string& device) const;
  std::set<std::string> heldUpNow() const;  ///< names of devices
  /// Returns why the device's pods could not be evicted; empty if no eviction was refused recently. Outlasts the wait
  /// by as much again, so that messages do not alternate while the eviction is tried again.
  std::string lastRefusal(const std::string& device) const;
  /// Returns the part of the claims' nominations that still helps; empty if none does.
  std::vector<v1alpha::Nomination> standing(const AskedTogether& asked) const;
  /// Removes victims that are not needed by the last check of the plan, or released. Nullopt: there is no recent check,
  /// it was of other victims, or all of its victims are released.
  std::optional<std::vector<v1alpha::Nomination>> neededByLastCheck(const AskedTogether& asked,
                                                                    std::vector<v1alpha::Nomination> nominations) const;
  /// Removes victims that are not needed. Returns nothing if the claims need no capacity, or would not fit without all
  /// victims.
  std::vector<v1alpha::Nomination> needed(const AskedTogether& asked,
                                          std::vector<v1alpha::Nomination> nominations) const;
  /// True if the device is going: it Failed by preemption, or its claim is gone or going and no pod keeps it. A claim
  /// from a template is deleted with its pod, so the claim of an evicted pod goes too. The preemptor gets the capacity
  /// as soon as it is free.
  bool leaves(const cache::Gpu& device) const;
  std::vector<v1alpha::Nomination> fresh(const AskedTogether& asked, const std::stop_token& stop);
  /// A possible victim.
  struct VictimCandidate {
    std::string device;
    scheduler::EvictionRank standing;
    std::string gang;  ///< key of VictimGang::gang; empty: no gang
  };
  struct Candidates {
    std::unordered_map<std::string, VictimCandidate> byDevice;
    std::map<std::string, VictimGang> gangs;  ///< by their key
    bool moreSoon =
        false;  ///< a claim that a budget blocks, or that is not Bound yet, may become a candidate without an event
  };
  Candidates candidatesFor(const AskedTogether& asked) const;
  /// Searches without gangs as victims first; if that does not help, with them.
  std::vector<v1alpha::Nomination> searchGangsLast(const AskedTogether& asked, const Candidates& candidates,
                                                   const scheduler::StopCondition& enough, bool& cut) const;
  /// Returns the nominations with their victims, in the order of the asks. Nothing: no eviction helps, or the search
  /// was cut short before it found any.
  std::vector<v1alpha::Nomination> search(const AskedTogether& asked, const Candidates& candidates,
                                          const scheduler::StopCondition& enough, bool& cut) const;
  /// Returns the uids of all pods that use one of the claims.
  std::set<std::string> podsOf(const AskedTogether& asked) const;

  enum class SearchResult { victims, noVictims, cutShort };
  /// Records a search. took: its processor time. moreSoon: Candidates::moreSoon.
  void recordSearch(const std::string& claimUid, base::Clock::Steady::duration took, SearchResult found, bool moreSoon);
  std::chrono::milliseconds ownBackoff(const std::string& claimUid) const EGPU_REQUIRES(mutex_);
  std::chrono::milliseconds until(base::Clock::Steady time) const;  // not negative

  const cache::Stores& stores_;
  allocator::Allocator& cluster_;
  base::Clock& clock_;
  const Timeouts& timeouts_;
  SharedPlans shared_;
  PlanQueue planQueue_;
  std::optional<Unwritten> unwritten_;  ///< guarded by planning_
  base::Mutex planning_;
  mutable base::Mutex mutex_;
  std::map<std::string, HeldUp> heldUp_ EGPU_GUARDED_BY(mutex_);  ///< by device
  struct SearchBackoff {
    base::Clock::Steady until;
    std::chrono::milliseconds duration;  ///< length of this backoff, from which the next one is computed
    bool cut = false;                    ///< the search did not try all candidates
    bool moreSoon = false;               ///< a search after the backoff may find candidates that this one lacked
  };
  std::map<std::string, SearchBackoff> searchBackoffs_ EGPU_GUARDED_BY(mutex_);  ///< by uid of the claim
  base::Clock::Steady searchesPausedUntil_ EGPU_GUARDED_BY(mutex_){};  ///< pause after the last search, for any claim
};

}  // namespace egpu::reconcile
