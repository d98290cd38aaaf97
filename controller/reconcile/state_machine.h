// The life of a claim as a state machine. The functions named here carry the states' names; ids such as (C7) stand in
// the code, in the tests and here.
// clang-format off
//
// WHERE IT IS.
//   claim/claim.cpp (C1) (C5) (C7) (C8) (C10)     claim/asking.cpp (C2) to (C4)     claim/no_fit.cpp (C6)     claim/given_device.cpp (C9)
//   claim/leaving.cpp (C11) lost, (C12) release   claim/first_consumer.cpp moveAway, and what waits for a reservation
//   pod/pod_binder.cpp W10, what a scheduler with an extender does
//   device/device.cpp (D1) to (D6), held, undo    claim/binder.cpp W1, W2, W4, W5, rollBack    device/provisioning.cpp W3    claim/conditions.cpp W6
//   gang/gang_step.cpp, in_gang.cpp (C14), members: gang/gang_members.cpp     gang/leaves_gang.cpp (C14) once Bound     resize/resizing.cpp (C15), R1 to R6, resize/whole_cards.cpp follow: the writes in claim/binder.cpp
//   claim/preempted.cpp (C13), V1 to V6, who goes: priority/preemption.cpp     priority/room_for_all.cpp V1 of several claims
//   claim/preferred.cpp (C6) with a plugin that chooses among places
//   claim/carrier.cpp W7, W8, (S4)  claim/stock.cpp W0   pod/let_go.cpp W9   pod/gather.cpp, startOver   card/sweeper.cpp (S1) to (S3)   card/surplus_cards.cpp (S5)
//   card/auditor.cpp which hardware is gone, drift
//
//   CLAIM (claim/)                                                DEVICE egpu-<claim uid> (device/)
//
//   (C1) unbound ── class, plugin, request refused ─► Pending     absent
//     │  │             (C2 ClassNotFound, C3 ProvisionerUnavail-    │ W1 create: the intent, finalizer in it
//     │  │              able, C4 InvalidParameter, NotRepresent-    ▼
//     │  │              able) until one of them changes           (D1) intent: phase "" or Pending ── claim gone ──► rollBack
//     │  ├─ first consumer missing ─► (C5) WaitingForConsumer       │ W2 one entry on each card ── 422 ────────────► rollBack
//     │  └─ no room ─► (C6) NoFit, until capacity appears           │ W3 provision ── RESCHEDULE, INVALID, EXISTS ─► rollBack
//     │ decision: W1                                                ▼ W4 status Bound: the point of no return
//     ▼                                                           (D2) Bound ── its claim gone or deleting ──► held, release
//   (C7) intended: W2, W3, W4 by the claim's step                   │   │ release: status Released (Retain stops here)
//     │ device Bound                                                │   ▼
//     ▼                                                             │ (D3) Released ── claimRef cleared ─► (D4) Available ─► (C9)
//   (C8) committing: W5 finalizer + name, W6 status                 │   │ Delete, or a user deletes it
//     ▼                                                             ▼   ▼
//   (C10) bound ── W7, W8 once a pod names it; W9 lifts its gate  (D5) deleting: undo = deprovision, entries null, finalizer off
//     │  └─ card or node gone ─► (C11) lost ── unused ─► Failed ─► (D5) ─► (C1)
//     ▼ deleted by its user                                       (D6) Available, made by hand: finalizer, entries, Available
//   (C12) releasing: carrier away, not in use, device (D3), finalizer off
//   (C13) making room for a claim of higher priority, or moving as its annotation asks: V2 marked, V3 evicted, V4 to V6 its device (D5), then (C1)
//   (C14) of a gang, before (C5) and (C6): waits as WaitingForGang until as many are here as they say, with their pods if their class
//        waits for these; then the step of the gang, which has a key of its own, decides for all that nothing is decided for
//        (ClusterView::decideGang) and reports on the oldest of them, and the step of each writes its own W1. Whatever its class, it is Bound as one of an Immediate class, without a reservation
//        "All" is as many claims as the annotations say, exactly: those that have something already, then those that the gang's last step
//        chose (in memory), then the oldest, so that no claim that comes later takes a member's place; an intent beyond the size is
//        rolled back. Size and topology are those of the first such claim. Of a PodGroup (gang/gang_of.h) the claims of minCount pods: those let go
//        first, then those that hold something, then the oldest. Its further pods are decided one by one once all of these are Bound,
//        by the same steps. A pod that has Succeeded counts, its claims are gone
//   (C5) for pods: a pod that may not be scheduled (pod/schedulability.h) is no consumer, of no gang, and keeps its gate. A claim that
//        is stamped for such a pod waits in either mode, as WaitingForGates or SchedulerNotServed; an intent that is found for it, and
//        that nothing reserves, is rolled back; Bound stays. The pod's update, or its namespace's, brings the claim back: routing.cpp
//   (C15) resizing: a (C10) whose spec asks for other amounts than its device has or is on its way to have; or whose device is on its way
//   (C9) static: spec names an Available device, or its claimRef without uid names the claim: claimRef (intent), then as C7
//
// ORDER OF WRITES. Each is idempotent or carries uid and resourceVersion; after a crash at any of them the next step does this:
//   W0 create claim          for a ResourceClaim that others made and that asks for a GPU by itself (claim/stock.h): found by name and
//                            owner reference; that ResourceClaim gone → deleted; one that was not made for it is left alone
//                            it is of the gang that its pod says, by annotations or else by its PodGroup, if it says none itself: part of
//                            W0, as decided alone it would be too late
//                            amounts on a pod: before W0 their ResourceClaimTemplate (template/amounts.h), found by its name
//   W1 create device         intent found by name: adopt it, forget what was decided, W2 as it says; its claim gone: rollBack.
//                            Of several claims of a pod some written: gather or startOver
//   W2 ledger entries        again = no-op; 422: rollBack, decide anew with the cards as just read, but after three times with
//                            back-off; device gone: entry is garbage (S1)
//   W3 provision(device uid) same key, same answer; in background: ask again; W4 refused as rolled back: deprovision too; (S2)
//                            EXISTS: the key has other content: a failure, as INVALID. The process stops meanwhile: nothing is
//                            written, the intent stays, the next one asks with the same key
//   W4 device status Bound   with resourceVersion, so a stale rollBack loses: 409 → read again: deleting → undo; Bound → go on
//   W5 claim: finalizer+name with resourceVersion: 409 → read again; claim gone or another uid → release
//   W6 claim status          computed from claim and device at any time
//   W7 create ResourceClaim  AlreadyExists: of this claim → go on, its marks (finalizer, owner reference) put back if somebody took
//                            them off; of an earlier claim → (S4) lets it go; else CarrierTaken. Whose it is: Carrier::of. Of a claim
//                            that was made for a ResourceClaim that one is its carrier: its finalizer alone is put on, before W8, if
//                            the API server lets anybody change that ResourceClaim (Carrier::markedAsCanBe)
//   W8 its allocation        equal → done; another's: said (CarrierTaken) as long as a pod names the claim or has it reserved,
//                            then taken back and, as if it was cleared, written again (of one taken back nothing has to be known
//                            after a crash); cleared: bound → again with back-off; unprovisioned → moveAway. Where the scheduler makes room
//                            for the pod (nominatedNodeName): again at once, some times. Not placed in time → moveAway
//   W9 pod: pin and lift     gate gone → done. Not to a device that is marked (V2): looked at again once the pod's volumes are read
//   W10 pod's binding        only for a scheduler that has us bind (pod/pod_binder.h), once its claims are Bound there: it has that node
//                            → done. Nobody answered the scheduler: it asks again
//   moveAway: of the pod's unprovisioned claims: allocation taken back if nobody reserves it, node rejected for a while, rollBack. What
//             the scheduler had not cleared stays empty for some seconds: its binding reads the claim again and would reserve anything
//   gather:   a pod's claims are on several nodes (each of two pods chose one; one was held for another pod): intents that nobody has
//             reserved and that serve no other pod there are rolled back, all but those on the node of the claims that can't move
//             (if all can: of the first claim by name), and decided anew
//   startOver: beside a pod's own such intents there is no room for its other claims, but for all of them anew there would be: rolled
//             back and decided together
//   firstAvailable: which alternative it was is part of W1 (spec.alternative of the device): W2 to W6 go by the device alone, and the claim
//             is decided anew, over all of them, only once that device is rolled back or lost
//   adminAccess: an observer's device and entries are of nothing; W1 to W9 as ever. The namespace's label counts until W1 alone
//   gang:     W1 of some members written, others not: those that stand stay as they are, the others are decided anew, within the
//             group of nodes that those are in. No member goes on to W3 before all have their W2; one that waits for that for a minute
//             is rolled back. A pod's gate is lifted (W9) once all members of its claims' gangs are Bound.
//             One is Bound and another lacks its cards (it failed at W3, was deleted, its card is lost), and no pod of any member went
//             through its gate: after a minute it gives back what it has, as in V2 to V6 and with their crash points. Its device is
//             marked (Bound, reason WaitingForGang, resourceVersion), so that no stale controller says Bound of it unseen (model:
//             gang.py mark=skipped); its carrier goes; its pods are behind their gates, by quorum read; claim Pending, in words of this
//             mark; device Failed with the marked resourceVersion; deleted. Whole again, or a pod went on: the mark is taken off. A
//             stale leader that lifts a gate after that read pins a pod to a node where it gets nothing: such a pod has to be deleted
//   rollBack: delete device (uid, resourceVersion) FIRST; then undo
//   held:     its claim gone, a pod that ran then, or had its ResourceClaim reserved, runs still, or that is reserved still: which
//             pods, once, as annotation elasticgpu.io/held-for; then condition Held. Crash between: the annotation stands, the
//             condition follows. Later pods of that name use another device. Claim deleting, ResourceClaim torn out: condition
//             Held alone
//   release:  delete ResourceClaim, wait for reservedFor empty, finalizer off, gone (one that others made stays, unless they deleted it:
//             once nobody reserves it its allocation is taken back); no running pod names the claim, by quorum read
//             after it was seen to go (a tenant can tear out claim and ResourceClaim, marks and all; model: look=skipped);
//             device status Released; Delete: delete device,
//             deprovision, entries null, device finalizer off; claim finalizer off
//   lost:     device marked (Bound, reason CardGone; the message names every lost card and is renewed with each further one);
//             claim Lost; unused: carrier away, device Failed with the marked resourceVersion, deleted, undone, decided
//             anew. Hardware back: mark off the device first, then the claim Bound. Without the mark a stale controller could
//             fail the device of a claim that is Bound again (tests/model/bind.py lost=skipped shows how)
//   preempt:  (C6) the claim fits nowhere, or its quotas are used up, and the release of preemptible claims of lower priority would help:
//   V1 claim status.nominated  the preemptor's intent: what it is to get, and the devices that have to go. It stands as long as condition
//                            Bound says Preempting, and keeps the room, and its quota: ClusterView reads it, the next leader's too. Victims
//                            that give back quota may be on other nodes. Crash after it: each
//                            device that is named is looked at by its claim's step. The preemptor bound, deleted, or helped otherwise: the
//                            nomination is dropped with the next status, and nobody goes
//   V2 device marked         by its own claim's step (C13), if by quorum read the preemptor still names it, and neither fits as it is nor
//                            without this device: status.reason Preempted, with resourceVersion, phase Bound stays. First its pods'
//                            budgets are asked (evictions as a dry run), and as long as nobody is marked those of all
//                            who have to go: one that may not spares the others. A move's mark is none of these: it becomes one likewise. No longer named or needed: the mark is taken off, the claim keeps all
//   V3 eviction of its pods  pods/eviction with the pod's uid, one at a time and each judged as V2 is; before it the carrier is deleted, so that
//                            no pod takes it anew. Crash: those that go are seen to go. 429: a budget holds; said on the preemptor, tried again
//                            after a while, and until V2 others are named instead if they would do
//   V4 claim status          nobody runs, by quorum read, and nobody has it reserved: Pending, and condition Preempted says for whom and since
//                            when the mark stands: each mark is said anew, so that an older Bound meets another version. Should the need end now, the mark goes and the claim is Bound again,
//                            with what is in force: status.requests stays until V5, and goes before V6, as the next device is made of those of the spec
//   V5 device Failed         reason Preempted, with the marked resourceVersion, so that a stale controller can't fail a device that its claim
//                            keeps (model: mark=skipped). The point of no return; then V6 it is deleted: again = no-op, undo, (C1)
//             a claim that moves, as annotation elasticgpu.io/move asks: V1 is the annotation, the uid of the device that it is to leave. V2 to V6
//             ask for it by quorum read, and that its class is movable; V3 is not done here: the claim keeps what it has until its last pods are being
//             deleted, none is let go to it while it is marked, and the carrier goes then: what is made in their place and has no gate waits for
//             the next one. A device of another uid is not meant, so it moves once. Crash: as above
//             a pod whose gate is lifted (W9) by who saw the device before its mark: before V4 and V5 the claim's pods are read by quorum; a
//             preemptor has it evicted, a claim that moves keeps its device, mark off, until the pod is carried. Lifted after V5: deleted by hand
//             a gang (C14) that does not fit: one plan for all of its open members, or none, against claims of lower priority than any of theirs
//             (scheduler/choice/preempt_together.h). V1 is a nomination of each, first of the one that speaks; who has to go stands in that of the
//             first member on that node. V2, and each V3 to V5, asks of all members, by quorum read, what it asks of one claim: they are here, open and
//             nominated, and fit where they are nominated without all who have to go, and not with this one (of more than four members once a
//             second for all victims, and in between by a read of the member that names the device: priority/shared_plans.h). Crash after some of V1: nobody goes
//             (model: room.py room=partial, room=bare), and the next step of the one that speaks writes all of it. A member keeps its nomination
//             as long as the one that speaks has one (room=left): a nomination that comes or goes brings all members back
//             a victim that is of a gang (VictimGang): all members that may go are victims, by the lowest priority of any, and after claims
//             of no gang. V2, and each V3 to V5, asks whether the preemptor needs all of these together. No member goes on to V4 before the
//             pods of all have ended. Once one has gone (V5), the others follow, whether they are needed or not. Crash: found by the marks,
//             and by condition Preempted of the claim that has gone
//             a pod's claims (C5) that don't fit on one node: likewise, for what the pod chooses for, if it is the only pod of each; its step writes V1,
//             and drops it. Of several pods of one claim the oldest plans that has all of its claims and chooses for that one alone; the others
//             leave the nomination alone. One of them gone: the step of each other one drops its own
//   resize:   (C15) only where the class says resizable and the device was made for the claim; one order for more and for less, so that an
//             entry is never below what is in force. Each target has a number, higher than the one before; a new one may come at any
//             time. Too large, over quota, no such slot: said (Resized is False), and nothing is written
//   R1 device spec.target    with resourceVersion, the intent: amounts of the same cards, and the requests that they are made of. 409 → read
//                            again. Crash: found by its number, which is not that of status.inForce; R2 as it says, or another R1
//   R2 ledger entries        at the largest of target, in force, and what stands, with the target's number: nothing goes down, as an
//                            earlier target may have been done. Again = no-op. The API server refuses a lower number than what stands
//                            (a dead leader's W2, R2 or R5), and a higher one with less. 422 for want of room: R1 back to what is in force
//   R3 resize(device uid, number)  again = the same answer; a plugin refuses a lower number than one that it did. INVALID, EXISTS,
//                            RESCHEDULE: R1 back to what is in force, and these requests are not tried for a while
//   R4 device status.inForce with resourceVersion: the commit. 409 → read again: another target stands, R2 for that
//   R5 ledger entries        at the target, its number stays: the first that goes down, and not before the pods that run have ended: their
//                            containers keep what they began with. Again = no-op; late: refused by its number
//                            (a dead leader's R2 of that number is not, and raises them again: the auditor has this step lower them)
//   R6 claim status          requests and capacity of what is in force, condition Resized: W6, computed at any time. As long as
//                            status.requests is not there, the API server refuses to change those of the spec
//                            (tests/model/bind.py resize: early, unpaid, unordered, lowered, late show what each of these is for)
//             released, failed, lost meanwhile: the target stays as it is, the entries at the larger of both; undo takes all
//   follow:   a claim of whole cards (resize/whole_cards.h) whose card has more or less usable memory than it was charged: R1 with the memory
//             of each card now, its requests as they are, then R2 to R6, whatever its class says of resizing. R2 with less keeps the entry as it
//             is, which the API server allows on a card that shrank. R3 only if its plugin can resize: the memory of a whole card limits
//             nothing. R5 does not wait for pods that run: the card has no more. Refused (422, INVALID): R1 back, with back-off. Crash: as
//             above; a card that changes meanwhile gets a target of the next number. Until R5 the agent gives of a physicalGPU the
//             smaller of charge and card. Shares (with an amount of memory) stay; claim, device (Healthy) and card (SharesFit) report them
//   undo:     deprovision, entries null, finalizer off: each again = no-op; a late entry or provision is garbage of a dead uid
//
//   binding:  for the time of it (pod/chosen_nodes.h, in memory) the pod's step decides for that node alone, and the claim's goes from
//             W8 to W3 without a reservation. Over without W10, or forgotten by a crash: what is not Bound is given up by the pod's
//             step (leaveToScheduler), or, of a pod of another served scheduler, waits for a reservation as ever
//
// WHAT BRINGS A WAITING CLAIM BACK
//
//   waits for                         brought back by
//   room on cards or in quotas        ClusterView::onCapacity and onQuota: turns of the claims that it may suit, in queue
//                                     order (claim/waiting_for_room.h). Growth (resize) waits in the same way
//   a quota that refused it           another version of the namespace's quotas, in the same turns
//   a search for victims              its turn (priority/plan_turns.h); after a search in vain, its own rest
//   those who make room for it        their devices, and each change of a nomination that names them (routing.cpp)
//   members of its gang               the gang's key, which routing.cpp marks with each claim that comes, leaves, is Bound or
//                                     loses its device, and for a PodGroup with its pods and its own changes. By time: further
//                                     pods, a PodGroup that is not there, one member Bound and another not, and CPU or memory
//                                     that a pod lacks
//   class, namespace, plugin, named   the events of these objects (routing.cpp)
//   ElasticGPU, PriorityClass,
//   ResourceClaim, pods
//   taints of a node                  Reconciler::node: refusals of the node end, and a round of turns begins
//   a node that was refused           time (claim/nodes_left_alone.h)
//   a provisioner that refused        time (claim/provisioners_left_alone.h)
//   a plugin without free calls       time (device/provisioning.h)
//
// - A plugin that could not judge a class is asked again by the class's step alone, with back-off. Its answer brings the
//   claims back.
// - An intent that a pod has reserved cannot move. The claim's status then shows RESCHEDULE and 422, tried again with back-off.
// - A held device is brought back by the events of its pods and of its ResourceClaim. The cache keeps what the look found.
// - A (D2) device whose claimRef was removed gets it back from the ledger. A (D6) device that failed because there was no
//   room: the entries of its cards bring it back.
// - A node is reserved for a claim after ten minutes of waiting, for a gang all its nodes (ClusterView).
// - Quotas count decisions, devices and entries alike, so half-done work of an earlier leader counts for the next one.
// - A decision counts until a device of its claim is seen or adopted, its write is known to have failed, or its claim is
//   gone. The room that this frees is room like any other. A decision that is a minute old without any of these is drift,
//   and is reported and dropped (Auditor::assumed).
//
// GARBAGE (card/sweeper.cpp; S4: claim/carrier.cpp; S5: card/surplus_cards.cpp): (S1) a ledger entry whose device is, by a quorum read after the entry was seen,
// gone, of another uid, or does not name the card; (S2) a key in a plugin's list that no device has, by a quorum list after it: at the
// start, when the plugin changes, and when a device goes without our undo; (S3) a deleted card's finalizer once its ledger is empty;
// (S4) a carrier of ours, marked or allocated by us, whose claim is gone; (S5) cards without entries that 128 cards of their node precede
// (those with entries, then the oldest): an agent's rights don't bound how many cards it creates. Keys are never reused, so a dead leader's late write is only
// garbage, and a late null removes only what is dead.
// clang-format on
#pragma once

#include "controller/reconcile/outcome.h"
