// All durations of the reconcilers. Durations of the queue, and of a card's summary, are options of their own
// (ControllerOptions, AuditorOptions); those of reservations are scheduler::ReservationLimits
// (scheduler/queue_order.h).
#pragma once

#include <chrono>

namespace egpu::reconcile {

/// Constant after construction. All reconcilers of a process share one object, which must outlive them. A *Backoff is a
/// time without attempts, a *Interval a requeue delay or the time between two writes, a *Timeout the end of a wait, a
/// *Delay the time before a report, a *Ttl the age up to which a result is used. first*, max*: an exponential backoff.
struct Timeouts {
  using Duration = std::chrono::milliseconds;

  // Queue
  Duration yieldInterval{50};          ///< pause of a key after many states in a row, so that other keys are stepped
  Duration claimStepTimeout{500};      ///< a step handles further states of its claim for this time
  Duration shortRecheckInterval{500};  ///< requeue for an obstacle that ends soon by itself, perhaps without an event
  Duration explainInterval{15'000};    ///< messages with amounts change with every release, and each is a write
  Duration queueAttemptTimeout{100};   ///< a key whose step does not begin in time hangs: it loses its turn
  Duration queueYieldTimeout{50};      ///< a key that yields to earlier keys decides after this time
  Duration queueAttemptBackoff{250};   ///< a key gets no second turn within this time, so that rounds reach all keys
  Duration consumerRoundInterval{10'000};      ///< some of a claim's many pods choose its node, then the next ones
  Duration reservationExpiryInterval{60'000};  ///< checks for node reservations that expired
  Duration assumedTimeout{60'000};             ///< a decision that was neither written nor repeated is drift then

  // Nodes and placement
  Duration nodeRejectionBackoff{120'000};  ///< node that a plugin or the scheduler rejected; doubles
  Duration nodeVetoBackoff{120'000};       ///< node with a veto of the plugin; doubles; documented in provisioner.h
  Duration nodeRefusalBackoff{120'000};    ///< node on which the API server refused the device; doubles
  Duration maxNodeBackoff{3'600'000};
  Duration firstChoiceBackoff{1'000};  ///< claim for which several choices of a node failed; doubles
  Duration maxChoiceBackoff{300'000};
  Duration placementTimeout{300'000};    ///< the scheduler has this time to place a pod, twice that while it preempts
  Duration placementReportDelay{5'000};  ///< most pods are placed sooner: their claims need no report, which is a write
  Duration nameConflictBackoff{15'000};  ///< claim whose device name is in use
  Duration bindingBurstTimeout{200};     ///< after a binding or eviction, more are expected for this time

  // Gangs
  Duration gangTimeout{60'000};          ///< a member keeps its cards this long while another member has none
  Duration gangReportDelay{5'000};       ///< a member that waits for other members reports it then
  Duration gangRecheckInterval{5'000};   ///< gang that may become complete without an event
  Duration runningGangInterval{30'000};  ///< incomplete gang of which a pod runs, so that the members keep their cards
  Duration podGroupInterval{60'000};     ///< missing PodGroup: if the API server loses the kind, there is no event
  Duration gangProvisionTimeout{300'000};  ///< a member whose provisioner fails this long releases its cards
  Duration gangProvisionBackoff{300'000};  ///< that member is not tried for this time

  // Preemption
  Duration preemptionRetryBackoff{15'000};  ///< eviction that a disruption budget blocked
  Duration planInterval{200};               ///< claim that waits while another claim is planned for
  Duration planWriteTimeout{5'000};         ///< other claims wait this long for the rest of a gang's plan
  Duration planTtl{1'000};             ///< check whether a gang's plan is still needed; used up to three times as long
  Duration planVersionTimeout{2'000};  ///< members of a gang are listed if the watch takes longer
  Duration budgetTtl{60'000};          ///< dry runs of evictions for a plan
  Duration victimSearchTimeout{800};   ///< processor time of one search, for which it occupies a worker
  Duration victimSearchSlotTimeout{250};    ///< a claim that has not searched in time loses its slot
  Duration firstSearchBackoff{500};         ///< claim without victims, if a candidate may appear soon; doubles
  Duration maxSearchBackoff{15'000};        ///< claim without victims; also the longest pause of all searches
  Duration nominationReportDelay{120'000};  ///< NoFit of victims, and columns of their cards, wait for the preemptor
  Duration nominationFitTimeout{2'000};     ///< nomination without remaining victims that still does not fit

  // Provisioners
  Duration busyPluginInterval{50};       ///< plugin without a free call
  Duration busyPluginListInterval{100};  ///< plugin without a free call, for classes and garbage: no pod waits
  Duration backgroundCallInterval{500};  ///< plugin that is still working
  Duration firstCallBackoff{500};        ///< call that failed; doubles
  Duration maxCallBackoff{16'000};
  Duration callFailureReportInterval{15'000};  ///< new texts of one failure: each is a write
  Duration preferBackoff{10'000};              ///< call of prefer that failed: the scheduler's order stands
  Duration slowCallReportDelay{1'000};         ///< claims report a call that takes longer
  Duration provisionRefusalBackoff{300'000};   ///< claim that the provisioner refused; longest for refused decisions
  Duration firstServerRefusalBackoff{1'000};   ///< claim whose decision the API server refused; doubles

  // Resize
  Duration resizeRefusalBackoff{300'000};    ///< requests that a plugin refused
  Duration firstResizeLedgerBackoff{1'000};  ///< requests that a ledger refused; doubles
  Duration maxResizeLedgerBackoff{60'000};
  Duration absentPluginInterval{5'000};    ///< device whose plugin is not loaded
  Duration accessRecheckInterval{60'000};  ///< access that a namespace regains requeues no bound claim

  // ResourceClaims, pods, templates
  Duration firstAllocationBackoff{1'000};  ///< allocation that the scheduler cleared; doubles
  Duration maxAllocationBackoff{300'000};
  /// No allocation is written for this time after its removal. The scheduler may be about to reserve it: it then reads
  /// the ResourceClaim again, and would reserve any allocation without checking the node.
  Duration withdrawnAllocationDelay{3'000};
  Duration volumeTtl{30'000};            ///< bound volumes, which are not watched
  Duration bindPollInterval{2};          ///< reads of the cache while a scheduler waits for a binding
  Duration bindRollBackTimeout{1'000};   ///< roll back after a failed binding
  Duration lostCardInterval{100};        ///< gated pod whose card is gone: the claim is Lost soon, or the card returns
  Duration firstTemplateBackoff{1'000};  ///< ResourceClaimTemplate that is created again; doubles
  Duration maxTemplateBackoff{300'000};
  Duration unusedTemplateTtl{600'000};  ///< template that was made for the amounts of pods

  // Writes for people
  Duration usageInterval{60'000};            ///< usage of a claim's cards
  Duration quotaInterval{1'000};             ///< status of a quota, however fast claims come and go
  Duration rejectionReportInterval{15'000};  ///< messages about refusals by the API server
  Duration firstAlternationBackoff{200};     ///< status that alternates; doubles
  Duration maxAlternationBackoff{30'000};
  Duration alternationTimeout{30'000};       ///< contents that return after a longer time do not alternate
  Duration alternationLogInterval{600'000};  ///< log lines about one object
};

inline const Timeouts kDefaultTimeouts{};

}  // namespace egpu::reconcile
