// The claim's half of the state machine (state_machine.h).
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
#include "controller/cache/cluster_view.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/claim/carrier.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/claim/waiting.h"
#include "controller/reconcile/class/class.h"
#include "controller/reconcile/device/provisioning.h"
#include "controller/reconcile/gang/gang_choice.h"
#include "controller/reconcile/gang/gang_of.h"
#include "controller/reconcile/pod/bound_volumes.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/priority/preemption.h"

namespace egpu::reconcile {

/// What a claim asks the scheduler for, or why it can't ask.
struct Asked {
  cache::Store<cache::Class>::Ptr cls;
  scheduler::Request request;
  std::vector<scheduler::Request> otherwise{};  ///< its further alternatives (spec.firstAvailable)
  std::string reason, message;                  ///< if refused
  bool accepted = false;                        ///< refused all the same, but not for what the claim says
  bool later = false;                           ///< the plugin is busy
  cache::ClusterView::Turn turn{};
  bool preempts = false;  ///< others may have to make room for it
  bool first = true;      ///< false: alternative() of it
  bool ok() const { return reason.empty() && !later; }
  std::size_t alternatives() const { return 1 + otherwise.size(); }
  /// What is asked where this one is tried. Room is kept, and others have to go, for the first alone.
  Asked alternative(std::size_t which) const;
  /// For the scheduler; nodes as there.
  cache::ClusterView::Ask of(const cache::Claim& claim, std::string nodes = {}) const {
    return {claim.metadata.uid,
            core::keyOf(claim.metadata).str(),
            request,
            std::move(nodes),
            cls->metadata.name,
            turn,
            first};
  }
  Said refusal(const cache::Claim& claim) const {
    return Said::of(claim.metadata, accepted ? Said::As::notBound : Said::As::notAccepted, reason, message);
  }
};

/// What the claim looks for room for.
RoomNeeds needsOf(const cache::Claim& claim, const Asked& asked);

/// Its class as it was when the device was made: by that its amounts are read, whatever became of the class.
cache::Class classOfDevice(const cache::Gpu& device);

/// Whose turn the claim's is.
cache::ClusterView::Turn turnOf(const cache::Claim& claim, int64_t priority, base::Clock::Wall wall);

class GangPods;

/// Thread-safe, one thread per claim at a time (the work queue's promise).
class ClaimSync {
 public:
  ClaimSync(Writer& writer, cache::Stores& stores, cache::ClusterView& cluster, Binder& binder,
            Provisioning& provisioning, ClassSync& classes, Carrier& carrier, Users& users, ClaimStatus& status,
            Waiting& waiting, BoundVolumes& volumes, base::Clock& clock,
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
  /// (C14) One step of a gang, by gangNamedBy(): chooses its members, and decides for those that nothing is decided for, or
  /// reports on the oldest of them why not.
  Outcome gangStep(const core::ObjectKey& gang, std::stop_token stop);

  /// Says on claims that a plugin's call for them takes its time.
  Outcome calls(const std::string& plugin);

  /// Class, plugin and units: from a claim without a device to a request. Shared with the first consumer's step.
  Asked ask(const cache::Claim& claim);
  /// The part of it that needs no plugin: whether the claim may use the class, and what it asks of it.
  static std::variant<scheduler::Request, scheduler::Refusal> requestOf(const cache::Stores& stores,
                                                                        const cache::Claim& claim,
                                                                        const cache::Class& cls);
  /// The same of each of its alternatives.
  static std::variant<std::vector<scheduler::Request>, scheduler::Refusal> requestsOf(const cache::Stores& stores,
                                                                                      const cache::Claim& claim,
                                                                                      const cache::Class& cls);
  /// Its device by claimRef, or null.
  cache::Store<cache::Gpu>::Ptr deviceOf(const cache::Claim& claim) const;
  /// spec.elasticGPUName was given by the user and names something else than its own device.
  static bool isStatic(const cache::Claim& claim);
  /// It gets a device that stands already: one that it names (or that isn't there yet), or one that is reserved for it.
  bool takesDevice(const cache::Claim& claim) const;
  /// Some claim was bound within the last moment: there is a rush.
  bool boundLately() const { return clock_.now() - boundAt_.load() < kRush; }
  /// Its class says WaitForFirstConsumer (a class that is gone says nothing), and it is of no gang: those are decided for all
  /// their pods at once, and Bound before any of these goes.
  bool waitsForConsumer(const cache::Claim& claim) const;
  /// It is of a gang, or says so wrongly (gang/gang_of.h).
  bool inGang(const cache::Claim& claim) const;
  /// The ResourceClaim is the claim's, with all the marks that it can have.
  bool carries(const core::ResourceClaim& carrier, const cache::Claim& claim) const {
    return carrier_.markedAsCanBe(carrier, claim);
  }
  /// It is of no gang, or names one wrongly, or all members of its gang are Bound.
  bool gangIsBound(const cache::Claim& claim) const;
  /// (C6), for a claim or for the pod that chooses for it; who waits is noted before deciding.
  /// more: what else there is to say, asked for only when it is said. whyUnsuited: why `suits` rejects a node.
  Outcome noFit(const cache::Claim& claim, const Asked& asked, const scheduler::NodePredicate& suits,
                const std::string& nodes, const std::function<std::string()>& more = {},
                const scheduler::WhyUnsuited& whyUnsuited = {});
  /// After a decision that found capacity: true if capacity was freed since `timesFreed` (ClusterView::timesFreed(), read
  /// before WaitingForRoom::add()) that a key before this one may need. The caller forgets the decision then, and yields.
  bool mustYield(const std::string& queueKey, uint64_t timesFreed);
  /// (C6), for either of them too, before noFit(): names who has to make room, and keeps the room (V1). Nothing: nobody can
  /// or may. Who waits is noted before deciding.
  std::optional<Outcome> makeRoom(const cache::Claim& claim, const Asked& asked, const scheduler::NodePredicate& suits,
                                  std::stop_token stop);
  /// (C6) Likewise for claims that are of use together only, all or none: a gang's open members, a pod's claims. The first one speaks for
  /// all; what: whose they are, for people.
  std::optional<Outcome> makeRoomForAll(const std::string& what, const std::string& queueKey, AskedTogether asked,
                                        std::stop_token stop);
  const Preemption& preemption() const { return preemption_; }
  /// Lets the next claim search for victims.
  Outcome givePlanTurn();
  /// Preemption::inVain() of the pod's claims, for which this one speaks.
  std::string preemptsInVain(const cache::Claim& claim, const core::Pod& pod) const {
    return preemption_.inVain(claim.metadata.uid, "pod " + pod.metadata.name, "claims");
  }
  /// Claims of the pod that have no device, each once, in the order of its entries, without those of other drivers.
  /// nullopt while a claim is pending, missing or being deleted: no node is chosen for the pod before all are there.
  std::optional<std::vector<cache::Store<cache::Claim>::Ptr>> openClaimsOf(const core::Pod& pod) const;
  /// The claims of which all are helped by its plan, or none: the open members of its gang; where it waits for its pod, and that is its
  /// only one, what that pod chooses for; else it alone. Empty: not all of them are here.
  std::vector<cache::Store<cache::Claim>::Ptr> preemptsWith(const cache::Store<cache::Claim>::Ptr& preemptor) const;
  /// Of the claims that it is decided with and that have nothing yet: which of them an excess counts as if they had.
  enum class Beside { nobody, some, all };
  /// (C6), for either of them too: a quota is exceeded. Who waits is noted before deciding. first: what is said before it, of others that
  /// it is decided with; counts: what of those the excess counts, nobody if there are none.
  Outcome overQuota(const cache::Claim& claim, const scheduler::QuotaExcess& excess, const std::string& first = {},
                    Beside counts = Beside::nobody);
  /// An intent that no pod has reserved leaves its node for a while, and with it the idle intents of the same pods;
  /// then their pod chooses again. Says so on the claim.
  Outcome moveAway(const cache::Claim& claim, const cache::Gpu& device, const std::string& why, std::stop_token stop);
  /// An intent that may still be given up: nothing is provisioned, no pod has it reserved, its user didn't name it.
  bool movable(const cache::Claim& claim, const cache::Gpu& device) const;
  /// Gives up such an intent so that it can be decided anew together with its pod's other claims; its node stays open.
  Outcome regroup(const cache::Claim& claim, const cache::Gpu& device, const std::string& why, std::stop_token stop);
  /// After a step that may have noted something about a claim that went meanwhile.
  void forgetIfGone(const core::ObjectKey& key, const std::string& uid);

 private:
  using ClaimPtr = cache::Store<cache::Claim>::Ptr;
  using GpuPtr = cache::Store<cache::Gpu>::Ptr;
  using milliseconds = std::chrono::milliseconds;

  Outcome look(const core::ObjectKey& key, const ClaimPtr& claim, std::stop_token stop);
  /// The outcome of a step that leaves a bound claim as it is: whether its cards work is said all the same.
  Outcome withHealth(const cache::Claim& claim, Outcome outcome, std::stop_token stop);
  Outcome unbound(const ClaimPtr& claim, std::stop_token stop);  // (C1)…(C6)
  /// It says that it has a device, and the cache knows of none. Nothing: it is to be decided.
  std::optional<Outcome> withoutItsDevice(const ClaimPtr& claim, std::stop_token stop);
  /// (C9) It gets a device that stands already. Nothing: a new one is to be made for it.
  std::optional<Outcome> givenDevice(const ClaimPtr& claim, std::stop_token stop);
  /// Its class says WaitForFirstConsumer.
  bool classWaits(const cache::Claim& claim) const;
  /// What keeps the claim from being decided: its pods may not be scheduled. Reads the pod that it was stamped for by
  /// quorum, if the cache lacks it.
  base::Result<PodObstacle> obstacleNow(const cache::Claim& claim, std::stop_token stop);
  /// Nothing is decided, reserved or nominated for it.
  Outcome awaitPods(const cache::Claim& claim, const PodObstacle& obstacle);
  Outcome leaveToConsumer(const ClaimPtr& claim);                                       // (C5)
  Outcome choose(const cache::Claim& claim, const Asked& asked, std::stop_token stop);  // (C6)
  /// The members of a gang, as far as they are here: the oldest first, no more than its size. Of a PodGroup the claims of the first
  /// pods that make it up; for a claim of a further pod also, or, where the former have their cards, only those of its own pod.
  struct GangMembers : GangChoice {
    std::size_t others = 0;        ///< members that are not in `here`, and have their cards
    std::vector<ClaimPtr> open{};  ///< members of `here` for which nothing is decided
    std::string standsOn{};        ///< node of a member that has its device; empty: no member has
    bool oneLeaves = false;        ///< the device of a member is being deleted: the member is open once it is gone
    bool has(const cache::Claim& claim) const {
      return std::any_of(here.begin(), here.end(),
                         [&](const auto& m) { return m->metadata.uid == claim.metadata.uid; });
    }
  };
  /// What the open ones ask for.
  struct GangAsks {
    std::vector<cache::ClusterView::Ask> asks;
    bool preempt = true;  ///< others may have to make room for each of them
  };
  /// (C14) Nothing is decided for it alone.
  Outcome withGang(const ClaimPtr& claim, const Asked& asked, std::stop_token stop);
  /// (C14) after W2: nothing is provisioned before all members have their entries. Nothing: they have, or it is of no gang.
  std::optional<Outcome> awaitGang(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// (C14) Bound beside one that lacks its cards, and no pod of the gang went on: after a while it gives back what it has. Nothing:
  /// it keeps it; again: not 0 if that is to be looked at after so long.
  std::optional<Outcome> leavesGang(const ClaimPtr& claim, const GpuPtr& device, milliseconds* again,
                                    std::stop_token stop);
  Outcome givesBack(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Empty, or which other member keeps its gang from being whole.
  std::string gangLacking(const cache::Claim& claim, const cache::Gpu& device) const;
  /// A pod of its runs, or may.
  bool wasLetGo(const cache::Claim& claim) const;
  /// Its provisioner fails, and has for too long: it gives up its cards. Nothing: it is tried again.
  std::optional<Outcome> failsGang(const cache::Claim& claim, const cache::Gpu& device, const std::string& text,
                                   std::stop_token stop);
  /// Its device is Bound, or all of its cards' ledgers have it.
  bool hasItsCards(const cache::Claim& claim) const;
  /// Whether all members of a gang have their cards.
  struct GangCards {
    bool all = false;  ///< they have, and none is missing
    ClaimPtr lacks{};  ///< else a member that has none; null: none is known
  };
  /// As far as it is known without a look at all members, so that n members that wait for each other cost n looks, not n².
  GangCards knownCardsOf(const cache::Claim& claim, const core::ObjectKey& gang) const;
  /// By a look at all members, which is noted for knownCardsOf(). roster: as of before the members were chosen.
  GangCards cardsOf(const GangMembers& members, const core::ObjectKey& gang, const GangRosters::Ptr& roster) const;
  /// What the open members ask for. An outcome: nothing can be decided now.
  std::optional<Outcome> askGang(const cache::Claim& claim, const GangMembers& members, GangPods& pods, GangAsks& asks,
                                 std::stop_token stop);
  /// The turn of all is that of the one that comes first by age and last by priority.
  static void askAsOne(std::vector<cache::ClusterView::Ask>& asks);
  /// queueKey: of the step that decides, which is brought back by room and quota. claim: the one that speaks.
  Outcome decideGang(const cache::Claim& claim, const GangMembers& members, const std::string& queueKey,
                     std::stop_token stop);
  /// What was asked for a gang in vain.
  struct GangTry {
    const GangMembers& members;
    const std::vector<cache::ClusterView::Ask>& asks;
    GangPods& pods;
    const std::vector<scheduler::TopologyGroup>* within;
    bool preempts = false;
  };
  Outcome gangLacks(const cache::Claim& claim, const std::string& queueKey, const GangTry& tried,
                    const scheduler::GangShort& lacking);
  /// Per stage why the lacking member fits nowhere beside the others, and what would help; empty if the search found another reason.
  std::string whyGangLacks(const GangTry& tried);
  /// Without which of them are open. gang: as gangOf() the claim.
  GangMembers membersOf(const cache::Claim& claim, const v1alpha::Gang& gang) const;
  GangMembers openOf(const cache::Claim& claim, const v1alpha::Gang& gang) const {
    return withOpen(membersOf(claim, gang));
  }
  GangMembers withOpen(GangMembers members) const;
  /// Chosen anew: claims that have something already, then members that the last step chose, then the oldest that say the same size
  /// and topology. A claim that comes later never takes the place of a member.
  GangMembers membersByAnnotation(const core::ObjectKey& gang) const;
  GangMembers membersOfGroup(const std::string& namespace_, const v1alpha::Gang& gang) const;
  /// As the last step chose them. Nothing: it has to be looked at anew.
  std::optional<GangMembers> membersAsChosen(const cache::Claim& claim, const GangRoster& roster) const;
  /// The claims of a pod beyond a PodGroup's first ones.
  void addFurtherPod(GangMembers& members, const GroupPod& pod) const;
  GangRoster rosterOf(const GangMembers& members) const;
  /// Brings back members, and claims that are none, whose step has something else to look at since the gang's last step.
  void wakeGang(const core::ObjectKey& gang, const GangRoster* before, const GangRoster& now,
                const GangMembers& members);
  static Outcome waitsForGang(const cache::Claim& claim, std::string why);
  /// What a claim reports that the gang's step does not speak on.
  Outcome tellMember(const cache::Claim& claim, const v1alpha::Gang& gang, const GangRoster& roster);
  Outcome withFurtherPod(const ClaimPtr& claim, const v1alpha::Gang& gang, const GangRoster& roster,
                         std::stop_token stop);
  /// Its own step reports why nothing can be decided for it.
  bool isRefusedItself(const cache::Claim& claim);
  /// A pod of some member was let go: the gang was whole once.
  bool letGo(const GangMembers& members) const;
  /// Where the device was refused before only if it fits nowhere else.
  scheduler::Decision decide(const cache::Claim& claim, const Asked& asked, const scheduler::NodePredicate& suits,
                             const std::string& nodes);
  /// What of its alternatives was tried, as of scheduler::decideFirst(). An outcome: nothing could be decided now.
  std::variant<std::vector<scheduler::Decision>, Outcome> decideFirst(const cache::Claim& claim, const Asked& asked,
                                                                      const scheduler::NodePredicate& suits,
                                                                      const std::string& nodes);
  /// (C6) None of what was tried fits.
  Outcome noneFits(const cache::Claim& claim, const Asked& asked, const std::vector<scheduler::Decision>& tried,
                   const scheduler::NodePredicate& suits, const std::string& nodes, std::stop_token stop);
  /// Why a claim, or each of its alternatives, fits nowhere.
  std::string whyNot(const cache::Claim& claim, const Asked& asked, const scheduler::NodePredicate& suits,
                     const std::string& nodes, const scheduler::WhyUnsuited& whyUnsuited) const;
  /// decide(), where the class's plugin prefers it among the best candidates; it may veto nodes. An outcome: nothing could be
  /// decided now.
  std::variant<scheduler::Decision, Outcome> decideAsPreferred(const cache::Claim& claim, const Asked& asked,
                                                               const scheduler::NodePredicate& suits,
                                                               const std::string& nodes);
  /// The candidates' nodes in the plugin's order. What it vetoes is left alone for a while.
  std::vector<std::string> preferredNodes(const cache::Claim& claim, const Asked& asked,
                                          const std::vector<scheduler::Decision>& candidates,
                                          const plugin::PreferReply& answer);
  Outcome intend(const cache::Claim& claim, const cache::Class& cls, const scheduler::Decision& decision,
                 std::stop_token stop);
  /// Whether the class that the cache lacks is there after all, by quorum read.
  base::Result<bool> classCame(const cache::Claim& claim, std::stop_token stop);
  /// A quota that refuses has refused it, and nothing of the namespace's quotas has changed since: says so.
  bool refusedByQuota(const cache::Claim& claim, Asked& asked);
  /// As ask(), under this class.
  Asked askOf(const cache::Claim& claim, cache::Store<cache::Class>::Ptr cls);
  /// Seconds of the wall clock: when the oldest of the pods that want it was made; now, if none does.
  int64_t wantedSince(const cache::Claim& claim, int64_t now) const;
  /// A device that an administrator reserved for the claim, or null.
  GpuPtr reservedFor(const cache::Claim& claim) const;
  /// Empty, or why the device can't be the claim's now, whoever may use it.
  std::string notAvailable(const cache::Claim& claim, const cache::Gpu& device) const;
  /// Empty, or what about the device breaks the rules of its class.
  std::string againstClass(const cache::Gpu& device, const cache::Class& cls, const scheduler::Request& want) const;
  /// What else there is to say about a lack of room: cards that are not offered, devices that are only kept.
  std::string outOfReach(const scheduler::Request& request) const;
  /// Devices without a claim that have cards which are asked for.
  struct Kept {
    std::string phase;
    std::size_t count = 0;
    scheduler::Amount held;
    std::string names;  ///< " a b c …"
    std::string text(const std::string& rest) const;
  };
  Kept keptDevices(std::string_view phase, const std::function<bool(const cache::Gpu&)>& wanted) const;
  /// The device is at least what is asked for.
  bool holds(const cache::Gpu& device, const scheduler::Request& want) const;
  Outcome staticallyBound(const ClaimPtr& claim, const GpuPtr& named, std::stop_token stop);  // (C9)
  /// Nothing: the namespace's quotas let the claim have it, and it counts from now on.
  std::optional<Outcome> overQuotaWith(const cache::Claim& claim, const cache::Gpu& named);
  /// Nothing: the device's class, or the claim's, lets the claim have it.
  std::optional<Outcome> againstRules(const cache::Claim& claim, const cache::Gpu& named, std::stop_token stop);
  Outcome intended(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);  // (C7)
  Outcome provision(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);
  /// The plugin's answer to it, when that isn't OK.
  Outcome notProvisioned(const cache::Claim& claim, const cache::Gpu& device, const plugin::Reply& reply,
                         std::stop_token stop);
  Outcome waitForReservation(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);
  /// The scheduler has its pod and has not placed it. Nothing: it may still do so.
  std::optional<Outcome> unplacedTooLong(const cache::Claim& claim, const cache::Gpu& device, const core::Pod& pod,
                                         milliseconds* again, std::stop_token stop);
  /// What keeps the claim from being carried is why it is not bound either.
  static Outcome notCarried(const cache::Claim& claim, const Carrier::Answer& answer);
  /// What its condition Carried says of is no more.
  bool obstacleIsOver(const cache::Claim& claim, Carrier::State carrier) const;
  Outcome committing(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);     // (C8)
  Outcome bound(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);  // (C10)
  Outcome carried(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// (C15) Nothing: what it asks for is what it has.
  std::optional<Outcome> resizing(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// It asks for something else than its device has or is on its way to have: R1, or what is said.
  Outcome retarget(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// R1 of a claim of whole cards whose memory changed.
  std::optional<Outcome> followCards(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// R5, but for what pods that run began with.
  base::Status lowerEntries(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  Outcome writeTarget(const cache::Claim& claim, const cache::Gpu& device, const scheduler::Resizing& resizing,
                      std::stop_token stop);
  /// Neither its cards nor its quotas have the room.
  Outcome noResize(const cache::Claim& claim, const cache::Gpu& device, const cache::ClusterView::Ask& ask,
                   const scheduler::Resizing& resizing);
  /// R2 to R4 of the target that stands.
  Outcome bringInForce(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// The target that stands can't be had: it is what is in force from now on.
  Outcome goBack(const cache::Claim& claim, const cache::Gpu& device, const base::Status& why, std::stop_token stop);
  Outcome lost(const ClaimPtr& claim, const GpuPtr& device, const std::string& message, std::stop_token stop);  // (C11)
  /// Nobody uses a Lost claim: its device goes, and it may be bound anew on hardware that is there.
  Outcome unlost(const cache::Claim& claim, const cache::Gpu& device, const std::string& message, std::stop_token stop);
  /// Nothing: nobody may use the claim's device. Quorum reads.
  std::optional<Outcome> stillUsed(const cache::Claim& claim, const GpuPtr& device, std::stop_token stop);
  Outcome releasing(const ClaimPtr& claim, std::stop_token stop);  // (C12)
  /// (C13) The claim has to leave its device, to make room for another one or as its annotation asks, or need not any more.
  /// Nothing: nobody asks that of it.
  std::optional<Outcome> makesRoom(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);
  /// Why a device has to go, after a quorum read of its preemptor and of those that preempt with it, which for many is
  /// at most as old as their plan's last check (priority/shared_plans.h).
  struct Need {
    ClaimPtr preemptor{};   ///< null: no claim names the device
    bool isNeeded = false;  ///< the preemptors' plan still helps all of them, and not without this device
    milliseconds later{0};  ///< not 0: neither is known yet; until another try
  };
  base::Result<Need> needFor(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  base::Result<Need> checkNeed(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& named,
                               std::stop_token stop);
  /// openClaimsOf() the claim's only pod, the claim among them, or none for nullopt. Of several pods: the claim alone.
  std::vector<ClaimPtr> chosenWith(const ClaimPtr& claim) const;
  /// Requests of claims that preempt together, all with one turn, and the nomination of each. Empty: their plan does not
  /// stand any more.
  struct Planned {
    std::vector<cache::ClusterView::Ask> asks{};
    std::vector<v1alpha::Nomination> rooms{};
    bool later = false;  ///< not known yet, as the plugin of a class is busy
  };
  Planned plannedFor(const ClaimPtr& preemptor);
  /// Asks the budgets of a batch of the plan's victims. Nothing: those of all were asked, and let them go.
  std::optional<Outcome> askBudgets(const SharedPlan& plan, const cache::Claim& who, std::stop_token stop);
  /// The devices that have to go by their plan.
  std::vector<std::string> victimsFor(const ClaimPtr& preemptor) const;
  /// Time for which no victims are to be searched for the claim; 0: its status does not say yet why it waits. Nothing:
  /// they may be searched for now.
  std::optional<milliseconds> restsFromPlans(const cache::Claim& claim, const std::string& queueKey);
  /// Lets the claim wait for its turn to search for victims: Preemption::putOff().
  milliseconds awaitPlan(const cache::Claim& claim, const std::string& queueKey);
  Outcome mark(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& preemptor, std::stop_token stop);
  /// Whether it asks to move and may. Quorum read.
  base::Result<bool> movesNow(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  Outcome markMoved(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// preemptor: null = it moves, and its pods are evicted by who asked for that.
  Outcome leave(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& preemptor, std::stop_token stop);
  /// Another member of its gang has made room already.
  bool hasLeftWithout(const cache::Claim& claim) const;
  /// Pods of another member of its gang, which makes room with it, have not ended.
  bool awaitsGang(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& preemptor) const;
  Outcome madeRoom(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Nothing: all of its pods may be evicted now.
  std::optional<Outcome> mayGo(const cache::Claim& claim, const cache::Gpu& device, const cache::Claim& who,
                               std::stop_token stop);
  /// Nothing: it is gone, or going. dry: it would be let go.
  std::optional<Outcome> evict(const core::Pod& pod, bool dry, const cache::Gpu& device, const cache::Claim& who,
                               std::stop_token stop);
  std::vector<cache::Store<core::Pod>::Ptr> podsToGo(const cache::Claim& claim) const;
  /// One of these has no node yet, and its ResourceClaim is not there for it.
  bool waitsForCarrier(const cache::Claim& claim) const;
  /// By quorum: the cache is told what the claim's pods that it knows are by now, behind their gates or not.
  base::Status readPods(const cache::Claim& claim, std::stop_token stop);
  /// The device of a claim that is being deleted. Nothing: it is gone, or kept by its reclaimPolicy.
  std::optional<Outcome> releaseDevice(const cache::Gpu& device, std::stop_token stop);
  /// giveUp(), said on the claim, and counted: choices that come to nothing follow each other ever more slowly.
  Outcome givenUp(const cache::Claim& claim, const cache::Gpu& device, std::string_view avoidNodeFor,
                  const std::string& why, std::stop_token stop);
  /// Undoes an intent; then the claim is decided anew. avoidNodeFor: if not empty, why not there for a while.
  Outcome giveUp(const cache::Claim& claim, const cache::Gpu& device, std::string_view avoidNodeFor,
                 std::stop_token stop);
  /// ProvisionFailed for as long as it was refused for.
  Outcome refused(const cache::Claim& claim, const std::string& message);
  /// Its intent can neither go on nor move (a pod has it reserved, or its user named it): says so, and tries again.
  static Outcome stuck(const cache::Claim& claim, const std::string& why);
  bool reserved(const cache::Claim& claim) const;
  /// A pod of its is being bound to the device's node: as good as a reservation, and kept for it.
  bool beingBound(const cache::Claim& claim, const cache::Gpu& device) const;
  /// A live pod of its that is up to the scheduler, or null.
  cache::Store<core::Pod>::Ptr podToPlace(const cache::Claim& claim) const;
  /// Empty, or why the hardware under a committed device is gone.
  std::string hardwareGone(const cache::Gpu& device) const;
  static Outcome rolledBack(const cache::Claim& claim, const cache::Gpu& device);
  bool inUse(const cache::Claim& claim) const;
  /// The same by quorum read: before its device goes.
  base::Result<bool> inUse(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  std::string users(const cache::Claim& claim) const;  ///< for people

  Writer& writer_;
  cache::Stores& stores_;
  cache::ClusterView& cluster_;
  Binder& binder_;
  Provisioning& provisioning_;
  ClassSync& classes_;
  Carrier& carrier_;
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
