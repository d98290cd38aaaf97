// State machine of claims (state_machine.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/v1alpha/gang.h"
#include "controller/allocator/allocator.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/class/class.h"
#include "controller/reconcile/device/provisioning.h"
#include "controller/reconcile/gang/gang_choice.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/pod/bound_volumes.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/priority/preemption.h"
#include "controller/reconcile/resourceclaim/bridge.h"
#include "controller/reconcile/retry/waiting.h"

namespace egpu::reconcile {

/// Result of resolving a claim: class and request for the scheduler, or why there is none.
struct ResolvedClaim {
  cache::Store<cache::Class>::Ptr cls;
  scheduler::Request request;
  std::vector<scheduler::Request> otherwise{};  ///< further alternatives (spec.firstAvailable)
  std::string reason, message;                  ///< set if refused
  bool specAccepted = false;                    ///< refused, but for a reason outside the claim's spec
  bool later = false;                           ///< the plugin is busy
  cache::ClusterView::QueueOrder turn{};
  bool preempts = false;  ///< may preempt claims of lower priority
  bool first = true;      ///< false for results of alternative()
  bool ok() const { return reason.empty() && !later; }
  std::size_t alternatives() const { return 1 + otherwise.size(); }
  /// Returns that alternative as a request of its own. Only the first alternative reserves nodes and preempts.
  ResolvedClaim alternative(std::size_t which) const;
  /// Returns the scheduling request. nodes: see cache::ClusterView::SchedulingRequest::nodes.
  cache::ClusterView::SchedulingRequest of(const cache::Claim& claim, std::string nodes = {}) const {
    return {claim.metadata.uid,
            core::keyOf(claim.metadata).str(),
            request,
            std::move(nodes),
            cls->metadata.name,
            turn,
            first};
  }
  ConditionUpdate refusal(const cache::Claim& claim) const {
    return ConditionUpdate::of(claim.metadata,
                               specAccepted ? ConditionUpdate::As::notBound : ConditionUpdate::As::notAccepted, reason,
                               message);
  }
};

/// Requests of the claim and its alternatives, for requeueing when capacity is freed.
RoomNeeds needsOf(const cache::Claim& claim, const ResolvedClaim& asked);

/// Class of the device as it was when the device was made. The device's amounts are read with it, whatever the class is
/// now.
cache::Class classOfDevice(const cache::Gpu& device);

/// Position of the claim in queue order.
cache::ClusterView::QueueOrder turnOf(const cache::Claim& claim, int64_t priority, base::Clock::Wall wall);

class GangPods;

/// Thread-safe, but one thread per claim at a time, which the work queue guarantees.
class ClaimSync {
 public:
  ClaimSync(Writer& writer, cache::Stores& stores, cache::ClusterView& cluster, Binder& binder,
            Provisioning& provisioning, ClassSync& classes, ResourceClaimBridge& carrier, Users& users,
            ClaimStatus& status, Waiting& waiting, BoundVolumes& volumes, base::Clock& clock,
            std::function<void(const std::string& queueKey)> enqueue)
      : writer_(writer),
        stores_(stores),
        cluster_(cluster),
        binder_(binder),
        provisioning_(provisioning),
        classes_(classes),
        carrier_(carrier),
        users_(users),
        status_(status),
        waiting_(waiting),
        volumes_(volumes),
        preemption_(stores, cluster, clock),
        clock_(clock),
        enqueue_(std::move(enqueue)) {}

  Outcome step(const core::ObjectKey& key, std::stop_token stop);
  /// (C14) One step of a gang, by gangNamedBy(): chooses its members, and decides all that are undecided, or reports on
  /// the oldest of them why that fails.
  Outcome gangStep(const core::ObjectKey& gang, std::stop_token stop);

  /// Reports on claims that a plugin's call for them takes long.
  Outcome reportSlowProvisioning(const std::string& plugin);

  /// Resolves a claim without a device to a request: class, plugin, units. The first consumer's step uses it, too.
  ResolvedClaim ask(const cache::Claim& claim);
  /// The part of ask() that needs no plugin: checks that the claim may use the class, and parses the request.
  static std::variant<scheduler::Request, scheduler::Refusal> requestOf(const cache::Stores& stores,
                                                                        const cache::Claim& claim,
                                                                        const cache::Class& cls);
  /// requestOf() for each alternative of the claim.
  static std::variant<std::vector<scheduler::Request>, scheduler::Refusal> requestsOf(const cache::Stores& stores,
                                                                                      const cache::Claim& claim,
                                                                                      const cache::Class& cls);
  /// Device of the claim by claimRef, or null.
  cache::Store<cache::Gpu>::Ptr deviceOf(const cache::Claim& claim) const;
  /// True if the user set spec.elasticGPUName to another name than that of the claim's own device.
  static bool isStatic(const cache::Claim& claim);
  /// True if the claim gets an existing device: one that it names (even before it exists), or one reserved for it.
  bool takesDevice(const cache::Claim& claim) const;
  /// True if a claim was bound within kRush: many claims are being bound.
  bool boundLately() const { return clock_.now() - boundAt_.load() < kRush; }
  /// True if the claim's class has WaitForFirstConsumer (false if the class is gone) and the claim is of no gang. Gang
  /// members are decided for all their pods at once, and Bound before any of these pods is ungated.
  bool waitsForConsumer(const cache::Claim& claim) const;
  /// True if the claim names a gang, even wrongly (gang/membership.h).
  bool inGang(const cache::Claim& claim) const;
  /// True if the ResourceClaim is the claim's, with all the marks that it can have.
  bool carries(const core::ResourceClaim& carrier, const cache::Claim& claim) const {
    return carrier_.markedAsCanBe(carrier, claim);
  }
  /// True if the claim is of no gang, names one wrongly, or all members of its gang are Bound.
  bool gangIsBound(const cache::Claim& claim) const;
  /// (C6) Reports that nothing fits, for a claim or for the pod that chooses for it. Add the claim to Waiting before
  /// deciding. more: further text, called only if it is reported. whyUnsuited: why `suits` rejects a node.
  Outcome noFit(const cache::Claim& claim, const ResolvedClaim& asked, const scheduler::NodePredicate& suits,
                const std::string& nodes, const std::function<std::string()>& more = {},
                const scheduler::WhyUnsuited& whyUnsuited = {});
  /// (C6) Preemptor side, called before noFit() for either of them: selects victims and writes the nomination (V1).
  /// Nullopt if there are no victims, or the claim may not preempt. Add the claim to Waiting before deciding.
  std::optional<Outcome> nominateVictims(const cache::Claim& claim, const ResolvedClaim& asked,
                                         const scheduler::NodePredicate& suits, std::stop_token stop);
  /// (C6) nominateVictims() for claims that are useful together only, all or none: a gang's open members, or a pod's claims.
  /// The first claim reports for all. what: the gang or pod, for people.
  std::optional<Outcome> nominateVictimsForGroup(const std::string& what, const std::string& queueKey,
                                                 AskedTogether asked, std::stop_token stop);
  const Preemption& preemption() const { return preemption_; }
  /// Lets the next claim search for victims.
  Outcome givePlanTurn();
  /// Preemption::noVictimsMessage() of the pod's claims, for which this claim reports.
  std::string preemptsInVain(const cache::Claim& claim, const core::Pod& pod) const {
    return preemption_.noVictimsMessage(claim.metadata.uid, "pod " + pod.metadata.name, "claims");
  }
  /// Claims of the pod that have no device, each once, in the order of its entries, without claims of other drivers.
  /// Nullopt while a claim is pending, missing or being deleted: the pod gets no node before all of them exist.
  std::optional<std::vector<cache::Store<cache::Claim>::Ptr>> openClaimsOf(const core::Pod& pod) const;
  /// Claims that share the preemptor's plan, all or none: the open members of its gang; for a claim with one pod that
  /// decides for it, the open claims of that pod; otherwise the claim alone. Empty if not all of them exist.
  std::vector<cache::Store<cache::Claim>::Ptr> preemptionGroup(const cache::Store<cache::Claim>::Ptr& preemptor) const;
  /// Which undecided claims of its group an excess counts as if they had their amounts.
  enum class GroupUsage { nobody, some, all };
  /// (C6) Reports an exceeded quota, for either of them. Add the claim to Waiting before deciding. first: text put
  /// before the report, about claims that are decided with it. counts: which of those the excess counts.
  Outcome overQuota(const cache::Claim& claim, const scheduler::QuotaExcess& excess, const std::string& first = {},
                    GroupUsage counts = GroupUsage::nobody);
  /// Rolls back an intent that no pod has reserved, and the idle intents of the same pods, and avoids its node for a
  /// while. Their pod chooses again. Reports this on the claim.
  Outcome moveAway(const cache::Claim& claim, const cache::Gpu& device, const std::string& why, std::stop_token stop);
  /// True if the intent may be rolled back: nothing is provisioned, no pod has reserved it, and no user named it.
  bool canRollBackIntent(const cache::Claim& claim, const cache::Gpu& device) const;
  /// Rolls back such an intent so that it is decided again with its pod's other claims. Does not avoid its node.
  Outcome regroup(const cache::Claim& claim, const cache::Gpu& device, const std::string& why, std::stop_token stop);
  /// Drops the state of a claim that was deleted during a step. Call after a step that may have recorded some.
  void forgetIfGone(const core::ObjectKey& key, const std::string& uid);

 private:
  using ClaimPtr = cache::Store<cache::Claim>::Ptr;
  using GpuPtr = cache::Store<cache::Gpu>::Ptr;
  using milliseconds = std::chrono::milliseconds;

  Outcome look(const core::ObjectKey& key, const ClaimPtr& claim, std::stop_token stop);
  /// Also reports the health of its cards after a step that leaves a bound claim as it is.
  Outcome reportHealth(const cache::Claim& claim, Outcome outcome, std::stop_token stop);
  Outcome unbound(const ClaimPtr& claim, std::stop_token stop);  // (C1)…(C6)
  /// Handles a claim that reports a device which the cache lacks. Nullopt: the claim is to be decided.
  std::optional<Outcome> withoutItsDevice(const ClaimPtr& claim, std::stop_token stop);
  /// (C9) Binds an existing device to the claim. Nullopt: a new one is to be made for it.
  std::optional<Outcome> givenDevice(const ClaimPtr& claim, std::stop_token stop);
  /// True if its class has WaitForFirstConsumer.
  bool classWaits(const cache::Claim& claim) const;
  /// Obstacle to deciding the claim: its pods may not be scheduled. Reads the pod that the claim was created for by
  /// quorum if the cache lacks it.
  base::Result<PodObstacle> obstacleNow(const cache::Claim& claim, std::stop_token stop);
  /// Drops all decisions and reservations for the claim, and reports the obstacle.
  Outcome awaitPods(const cache::Claim& claim, const PodObstacle& obstacle);
  Outcome leaveToConsumer(const ClaimPtr& claim);                                               // (C5)
  Outcome choose(const cache::Claim& claim, const ResolvedClaim& asked, std::stop_token stop);  // (C6)
  /// Known members of a gang, the oldest first, at most its size. For a PodGroup: the claims of the first pods that
  /// complete it. For a claim of a further pod: those and its own pod's claims, or only its own pod's if the others
  /// have their cards.
  struct GangMembers : GangChoice {
    std::size_t others = 0;        ///< members that are not in `here` and have their cards
    std::vector<ClaimPtr> open{};  ///< undecided members of `here`
    std::string standsOn{};        ///< node of a member that has its device; empty if none has
    bool oneLeaves = false;        ///< a member's device is being deleted; the member is open once it is gone
    bool has(const cache::Claim& claim) const {
      return std::any_of(here.begin(), here.end(),
                         [&](const auto& m) { return m->metadata.uid == claim.metadata.uid; });
    }
  };
  /// Requests of the open members.
  struct GangAsks {
    std::vector<cache::ClusterView::SchedulingRequest> asks;
    bool preempt = true;  ///< all of them may preempt
  };
  /// (C14) Step of a gang member, which is never decided alone.
  Outcome withGang(const ClaimPtr& claim, const ResolvedClaim& asked, std::stop_token stop);
  /// (C14) After W2: nothing is provisioned before all members have their entries. Nullopt: they have, or there is no
  /// gang.
  std::optional<Outcome> awaitGang(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// (C14) Releases the device of a Bound member if another member has lacked its cards for a while and no pod of the
  /// gang was ungated. Nullopt: the member keeps it; *again: if not 0, the time until this must be evaluated again.
  std::optional<Outcome> releaseIncompleteGang(const ClaimPtr& claim, const GpuPtr& device, milliseconds* again,
                                               std::stop_token stop);
  Outcome givesBack(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Other member that keeps the gang incomplete, for people; empty if there is none.
  std::string unplacedGangMember(const cache::Claim& claim, const cache::Gpu& device) const;
  /// True if a pod of the claim runs, or may run.
  bool wasLetGo(const cache::Claim& claim) const;
  /// Releases the member's cards if its provisioner has failed for too long. Nullopt: it is tried again.
  std::optional<Outcome> failsGang(const cache::Claim& claim, const cache::Gpu& device, const std::string& text,
                                   std::stop_token stop);
  /// True if its device is Bound, or the ledgers of all its cards have its entry.
  bool hasItsCards(const cache::Claim& claim) const;
  /// Result of the check whether all members of a gang have their cards.
  struct GangCards {
    bool all = false;  ///< they have, and none is missing
    ClaimPtr lacks{};  ///< otherwise a member that has none; null if none is known
  };
  /// Checks the gang's roster from the first member that may lack its cards, so that n waiting members cost n reads,
  /// not n².
  GangCards knownCardsOf(const cache::Claim& claim, const core::ObjectKey& gang) const;
  /// Reads all members, and records the result for knownCardsOf(). roster: from before the members were chosen.
  GangCards cardsOf(const GangMembers& members, const core::ObjectKey& gang, const GangRosters::Ptr& roster) const;
  /// Makes the requests of the open members. Returns an outcome if nothing can be decided now.
  std::optional<Outcome> askGang(const cache::Claim& claim, const GangMembers& members, GangPods& pods, GangAsks& asks,
                                 std::stop_token stop);
  /// Gives all requests the oldest age and the lowest priority among them.
  static void useGroupOrder(std::vector<cache::ClusterView::SchedulingRequest>& asks);
  /// queueKey: key of the deciding step, requeued by freed capacity and quota. claim: the member that reports.
  Outcome decideGang(const cache::Claim& claim, const GangMembers& members, const std::string& queueKey,
                     std::stop_token stop);
  /// Attempt to decide a gang that did not fit.
  struct GangTry {
    const GangMembers& members;
    const std::vector<cache::ClusterView::SchedulingRequest>& asks;
    GangPods& pods;
    const std::vector<scheduler::TopologyGroup>* within;
    bool preempts = false;
  };
  Outcome reportGangUnschedulable(const cache::Claim& claim, const std::string& queueKey, const GangTry& tried,
                                  const scheduler::GangShort& lacking);
  /// Message per stage why the lacking member fits nowhere beside the others, and remedies; empty if the search found
  /// another reason.
  std::string whyGangLacks(const GangTry& tried);
  /// Members of the claim's gang, without `open`. gang: gangOf() the claim.
  GangMembers membersOf(const cache::Claim& claim, const v1alpha::Gang& gang) const;
  GangMembers openOf(const cache::Claim& claim, const v1alpha::Gang& gang) const {
    return withOpen(membersOf(claim, gang));
  }
  GangMembers withOpen(GangMembers members) const;
  /// Chooses the members: claims that have something already, then members that the last step chose, then the oldest
  /// with the same size and topology. A later claim never takes the place of a member.
  GangMembers membersByAnnotation(const core::ObjectKey& gang) const;
  GangMembers membersOfGroup(const std::string& namespace_, const v1alpha::Gang& gang) const;
  /// Members that the last step chose; nullopt if they have to be chosen again.
  std::optional<GangMembers> membersAsChosen(const cache::Claim& claim, const GangRoster& roster) const;
  /// Adds the claims of a pod beyond a PodGroup's first ones.
  void addFurtherPod(GangMembers& members, const GroupPod& pod) const;
  GangRoster rosterOf(const GangMembers& members) const;
  /// Requeues members, and claims that are no members, if the gang's last step changed something for their steps.
  void wakeGang(const core::ObjectKey& gang, const GangRoster* before, const GangRoster& now,
                const GangMembers& members);
  static Outcome waitsForGang(const cache::Claim& claim, std::string why);
  /// Reports the state of a claim on which the gang's step does not report.
  Outcome tellMember(const cache::Claim& claim, const v1alpha::Gang& gang, const GangRoster& roster);
  Outcome withFurtherPod(const ClaimPtr& claim, const v1alpha::Gang& gang, const GangRoster& roster,
                         std::stop_token stop);
  /// True if its own step reports why nothing can be decided for it.
  bool isRefusedItself(const cache::Claim& claim);
  /// True if a pod of some member was ungated: the gang was complete once.
  bool anyPodUngated(const GangMembers& members) const;
  /// Decides; uses a node that refused the device before only if the claim fits nowhere else.
  scheduler::Decision decide(const cache::Claim& claim, const ResolvedClaim& asked,
                             const scheduler::NodePredicate& suits, const std::string& nodes);
  /// Decisions for the alternatives that were tried, see scheduler::decideFirst(). An outcome: nothing could be decided
  /// now.
  std::variant<std::vector<scheduler::Decision>, Outcome> decideFirst(const cache::Claim& claim,
                                                                      const ResolvedClaim& asked,
                                                                      const scheduler::NodePredicate& suits,
                                                                      const std::string& nodes);
  /// (C6) Handles alternatives none of which fits.
  Outcome noneFits(const cache::Claim& claim, const ResolvedClaim& asked, const std::vector<scheduler::Decision>& tried,
                   const scheduler::NodePredicate& suits, const std::string& nodes, std::stop_token stop);
  /// Explains why a claim, or each of its alternatives, fits nowhere.
  std::string whyNot(const cache::Claim& claim, const ResolvedClaim& asked, const scheduler::NodePredicate& suits,
                     const std::string& nodes, const scheduler::WhyUnsuited& whyUnsuited) const;
  /// decide() on the best candidates, in the order that the class's plugin prefers; it may veto nodes. An outcome:
  /// nothing could be decided now.
  std::variant<scheduler::Decision, Outcome> decideAsPreferred(const cache::Claim& claim, const ResolvedClaim& asked,
                                                               const scheduler::NodePredicate& suits,
                                                               const std::string& nodes);
  /// Nodes of the candidates in the plugin's order. Vetoed nodes are left out and backed off.
  std::vector<std::string> preferredNodes(const cache::Claim& claim, const ResolvedClaim& asked,
                                          const std::vector<scheduler::Decision>& candidates,
                                          const plugin::PreferReply& answer);
  Outcome writeIntent(const cache::Claim& claim, const cache::Class& cls, const scheduler::Decision& decision,
                      std::stop_token stop);
  /// Reads by quorum whether a class exists that the cache lacks.
  base::Result<bool> classExistsNow(const cache::Claim& claim, std::stop_token stop);
  /// True, with the refusal in `asked`, if a quota refused the claim and the namespace's quotas have not changed since.
  bool refusedByQuota(const cache::Claim& claim, ResolvedClaim& asked);
  /// ask() with this class.
  ResolvedClaim askOf(const cache::Claim& claim, cache::Store<cache::Class>::Ptr cls);
  /// Creation time of the oldest pod that wants the claim, in seconds of the wall clock; `now` if there is none.
  int64_t wantedSince(const cache::Claim& claim, int64_t now) const;
  /// Device that an administrator reserved for the claim, or null.
  GpuPtr preboundDeviceFor(const cache::Claim& claim) const;
  /// Why the device is not available to the claim now, whatever the access rules say; empty if it is.
  std::string notAvailable(const cache::Claim& claim, const cache::Gpu& device) const;
  /// Rule of its class that the device violates for this request; empty if there is none.
  std::string againstClass(const cache::Gpu& device, const cache::Class& cls, const scheduler::Request& want) const;
  /// Message about unavailable capacity: cards that are not schedulable, and devices without a claim that hold cards.
  std::string unavailableCapacityMessage(const scheduler::Request& request) const;
  /// Devices without a claim that hold requested cards.
  struct UnclaimedDevices {
    std::string phase;
    std::size_t count = 0;
    scheduler::Amount held;
    std::string names;  ///< " a b c …"
    std::string text(const std::string& rest) const;
  };
  UnclaimedDevices keptDevices(std::string_view phase, const std::function<bool(const cache::Gpu&)>& wanted) const;
  /// True if the device has at least the requested amounts.
  bool holds(const cache::Gpu& device, const scheduler::Request& want) const;
  Outcome staticallyBound(const ClaimPtr& claim, const GpuPtr& named, std::stop_token stop);  // (C9)
  /// Nullopt: the namespace's quotas permit the device, and it counts from now on.
  std::optional<Outcome> overQuotaWith(const cache::Claim& claim, const cache::Gpu& named);
  /// Nullopt: the device's class, or the claim's, permits the device for the claim.
  std::optional<Outcome> againstRules(const cache::Claim& claim, const cache::Gpu& named, std::stop_token stop);
  Outcome syncIntent(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);  // (C7)
  Outcome provision(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);
  /// Handles an answer of the plugin other than OK.
  Outcome notProvisioned(const cache::Claim& claim, const cache::Gpu& device, const plugin::Reply& reply,
                         std::stop_token stop);
  Outcome waitForReservation(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);
  /// Time until the claim reports that its pod is not placed yet; zero if it reports now, because it reports another
  /// obstacle that is over.
  std::chrono::milliseconds untilPlacementReport(const cache::Claim& claim, const cache::Gpu& device) const;
  /// Moves the intent away if the scheduler knows its pod but does not place it in time. Nullopt: it may still do so.
  std::optional<Outcome> unplacedTooLong(const cache::Claim& claim, const cache::Gpu& device, const core::Pod& pod,
                                         milliseconds* again, std::stop_token stop);
  /// Reports the obstacle to the ResourceClaim also as the reason why the claim is not bound.
  static Outcome resourceClaimNotReady(const cache::Claim& claim, const ResourceClaimBridge::Answer& answer);
  /// True if the obstacle in its condition ResourceClaimReady is gone.
  bool conditionResolved(const cache::Claim& claim, ResourceClaimBridge::State carrier) const;
  Outcome committing(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);     // (C8)
  Outcome bound(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);  // (C10)
  Outcome carried(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// (C15) Nullopt: the requests in the spec are in force.
  std::optional<Outcome> resizing(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Handles requests that the device neither has nor is on its way to: writes R1, or reports why not.
  Outcome retarget(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// R1 of a claim of whole cards whose memory changed.
  std::optional<Outcome> followCards(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// R5, except amounts that running pods started with.
  base::Status shrinkLedgerEntries(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  Outcome writeTarget(const cache::Claim& claim, const cache::Gpu& device, const scheduler::Resizing& resizing,
                      std::stop_token stop);
  /// Reports a resize that its cards or its quotas have no capacity for.
  Outcome noResize(const cache::Claim& claim, const cache::Gpu& device,
                   const cache::ClusterView::SchedulingRequest& ask, const scheduler::Resizing& resizing);
  /// R2 to R4 for the current target.
  Outcome applyResizeTarget(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Rolls the target back to the amounts in force because it cannot be reached.
  Outcome rollBackResize(const cache::Claim& claim, const cache::Gpu& device, const base::Status& why,
                         std::stop_token stop);
  Outcome lost(const ClaimPtr& claim, const GpuPtr& device, const std::string& message, std::stop_token stop);  // (C11)
  /// Releases the device of a Lost claim that no pod uses, so that the claim can be bound on other hardware.
  Outcome recoverLost(const cache::Claim& claim, const cache::Gpu& device, const std::string& message,
                      std::stop_token stop);
  /// Nullopt: no pod may use the claim's device any more. Quorum reads.
  std::optional<Outcome> stillUsed(const cache::Claim& claim, const GpuPtr& device, std::stop_token stop);
  Outcome releasing(const ClaimPtr& claim, std::stop_token stop);  // (C12)
  /// (C13) Victim side: the claim must leave its device, for a preemptor or because its annotation asks for a move, or
  /// need not any more. Nullopt: nothing asks it to.
  std::optional<Outcome> reconcileVictim(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);
  /// Why a device must be released, after quorum reads of its preemptor and the claims that preempt with it. For many
  /// claims the last check of their plan counts instead (priority/shared_plans.h).
  struct Need {
    ClaimPtr preemptor{};   ///< null if no claim names the device
    bool isNeeded = false;  ///< all preemptors fit by their plan, but not without the release of this device
    milliseconds later{0};  ///< if not 0, neither is known yet; time until the next attempt
  };
  base::Result<Need> needFor(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  base::Result<Need> checkNeed(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& named,
                               std::stop_token stop);
  /// openClaimsOf() the claim's only pod, including the claim; none for nullopt. If it has several pods: the claim
  /// alone.
  std::vector<ClaimPtr> chosenWith(const ClaimPtr& claim) const;
  /// Requests of claims that preempt together, all with one place in queue order, and the nomination of each. Empty if
  /// their plan is no longer valid.
  struct Planned {
    std::vector<cache::ClusterView::SchedulingRequest> asks{};
    std::vector<v1alpha::Nomination> rooms{};
    bool later = false;  ///< not known yet, as the plugin of a class is busy
  };
  Planned plannedFor(const ClaimPtr& preemptor);
  /// Dry-runs the evictions of a batch of the plan's victims. Nullopt: all batches were tried, and all are permitted.
  std::optional<Outcome> askBudgets(const SharedPlan& plan, const cache::Claim& who, std::stop_token stop);
  /// Names of the devices that must be released by their plan.
  std::vector<std::string> victimsFor(const ClaimPtr& preemptor) const;
  /// Backoff before the next search for victims; 0 if the claim's status must first report why it is pending; nullopt
  /// if a search may run now.
  std::optional<milliseconds> restsFromPlans(const cache::Claim& claim, const std::string& queueKey);
  /// Queues the claim for its search for victims: Preemption::delayForRateLimit().
  milliseconds awaitPlan(const cache::Claim& claim, const std::string& queueKey);
  Outcome markForPreemption(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& preemptor,
                            std::stop_token stop);
  /// True if the claim asks to move and may. Quorum read.
  base::Result<bool> movesNow(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  Outcome markMoved(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// preemptor: null if the claim moves or follows its gang; its pods are then not evicted here.
  Outcome evictVictimPods(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& preemptor,
                          std::stop_token stop);
  /// True if another member of its gang has released its device already.
  bool hasLeftWithout(const cache::Claim& claim) const;
  /// True if pods of another member of its gang, which is a victim with it, have not ended.
  bool awaitsGang(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& preemptor) const;
  Outcome finishEviction(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Dry-runs the eviction of all its pods. Nullopt: all of them may be evicted now.
  std::optional<Outcome> dryRunEvictions(const cache::Claim& claim, const cache::Gpu& device, const cache::Claim& who,
                                         std::stop_token stop);
  /// Nullopt: the pod is gone or going; with `dry`: it could be evicted.
  std::optional<Outcome> evict(const core::Pod& pod, bool dry, const cache::Gpu& device, const cache::Claim& who,
                               std::stop_token stop);
  std::vector<cache::Store<core::Pod>::Ptr> podsToGo(const cache::Claim& claim) const;
  /// True if one of these has no node yet and its ResourceClaim is not allocated.
  bool waitsForCarrier(const cache::Claim& claim) const;
  /// Reads the claim's known pods, gated or not, by quorum into the cache.
  base::Status readPods(const cache::Claim& claim, std::stop_token stop);
  /// Releases the device of a claim that is being deleted. Nullopt: it is gone, or kept by its reclaimPolicy.
  std::optional<Outcome> releaseDevice(const cache::Gpu& device, std::stop_token stop);
  /// rollBack() with a report on the claim. Also counts it, for the backoff before the next choice.
  Outcome rollBackAndReport(const cache::Claim& claim, const cache::Gpu& device, std::string_view avoidNodeFor,
                            const std::string& why, std::stop_token stop);
  /// Rolls back an intent; the claim is then decided again. avoidNodeFor: why its node is avoided for a while; empty =
  /// it is not.
  Outcome rollBack(const cache::Claim& claim, const cache::Gpu& device, std::string_view avoidNodeFor,
                   std::stop_token stop);
  /// Reports ProvisionFailed until the backoff of the refusal ends.
  Outcome refused(const cache::Claim& claim, const std::string& message);
  /// Reports an intent that can neither go on nor move (a pod has reserved it, or its user named it), and retries.
  static Outcome stuck(const cache::Claim& claim, const std::string& why);
  bool reserved(const cache::Claim& claim) const;
  /// True if a pod of the claim is being bound to the device's node. This counts as a reservation.
  bool beingBound(const cache::Claim& claim, const cache::Gpu& device) const;
  /// Live pod of the claim that waits for the scheduler, or null.
  cache::Store<core::Pod>::Ptr podToPlace(const cache::Claim& claim) const;
  /// Why the hardware under a committed device is gone; empty if it is not.
  std::string hardwareGone(const cache::Gpu& device) const;
  static Outcome rolledBack(const cache::Claim& claim, const cache::Gpu& device);
  bool inUse(const cache::Claim& claim) const;
  /// The same check by quorum read, before its device is released.
  base::Result<bool> inUse(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  std::string users(const cache::Claim& claim) const;  ///< for people

  Writer& writer_;
  cache::Stores& stores_;
  cache::ClusterView& cluster_;
  Binder& binder_;
  Provisioning& provisioning_;
  ClassSync& classes_;
  ResourceClaimBridge& carrier_;
  Users& users_;
  ClaimStatus& status_;
  Waiting& waiting_;
  BoundVolumes& volumes_;
  Preemption preemption_;
  base::Clock& clock_;
  const std::function<void(const std::string& queueKey)> enqueue_;
  static constexpr std::chrono::milliseconds kRush{200};
  std::atomic<base::Clock::Steady> boundAt_{base::Clock::Steady{}};
};

}  // namespace egpu::reconcile
