// The life of a claim as a state machine: its states, every write, and the recovery after a crash.
// Comments in the code, and the names of tests, refer to the states and writes by their ids, such
// as (C7) and W2.
// clang-format off
//
// FILES
//   claim/claim.cpp             (C1) (C5) (C8) (C10); lets one of the following classes act
//   claim/resolve.cpp           (C2) to (C4)
//   placement/placement.cpp     (C6), also where a plugin chooses among nodes
//   placement/no_fit.cpp        (C6) reports, also placement/over_quota.cpp
//   intent/intent.cpp           (C7); intent/first_consumer.cpp: intents that wait for the scheduler
//   intent/intent_rollback.cpp  rollBack, moveAway
//   placement/static_binding.cpp  (C9)
//   placement/remote_placement.cpp  (C6) of classes of remote GPUs, without a decision
//   claim/release.cpp           (C11) lost, (C12) release
//   priority/victim.cpp         (C13), V2 to V6, which victim.h describes
//   priority/preemptor.cpp      V1; priority/preemption.cpp selects the victims
//   gang/gang_step.cpp          (C14), also gang/member.cpp; gang/gang_members.cpp: the members
//   gang/incomplete_gang.cpp    (C14) members with cards while another member has none
//   resize/resizing.cpp         (C15), R1 to R6, which resizing.h describes, written by
//                               claim/binder.cpp; resize/whole_cards.cpp
//   device/device.cpp           (D1) to (D6), held, undo
//   claim/binder.cpp            W1, W2, W3b, W4, W5, rollBack
//   device/provisioning.cpp     W3
//   claim/conditions.cpp        W6
//   resourceclaim/bridge.cpp           W7, W8, (S4)
//   resourceclaim/adopter.cpp             W0
//   pod/ungate.cpp              W9
//   pod/colocation.cpp          gather, startOver
//   pod/pod_binder.cpp          W10, the steps for a scheduler with an extender
//   card/sweeper.cpp            (S1) to (S3)
//   card/surplus_cards.cpp      (S5)
//   card/auditor.cpp            hardware that is gone, drift
//
// STATES
//
//   CLAIM (claim/)                              DEVICE egpu-<claim uid> (device/)
//
//   (C1) unbound ─ class, plugin or request     absent
//     │  │  refused ─► Pending, until one of      │ W1 create: the intent, with its finalizer
//     │  │  them changes: (C2) ClassNotFound,     ▼
//     │  │  (C3) ProvisionerUnavailable, (C4)   (D1) intent: phase "" or Pending
//     │  │  InvalidParameter, NotRepresentable    │    ─ claim gone ─► rollBack
//     │  ├─ first consumer missing                │ W2 one entry on each card ─ 422 ─► rollBack
//     │  │    ─► (C5) WaitingForConsumer          │ W3 provision
//     │  └─ no capacity                           │    ─ RESCHEDULE, INVALID, EXISTS ─► rollBack
//     │       ─► (C6) NoFit, until there is some  ▼ W4 status Bound: the point of no return
//     │ decision: W1                            (D2) Bound ─ claim gone, deleting ─► held, release
//     ▼                                           │ │ release: status Released (Retain stops here)
//   (C7) intended: the claim's step does          │ ▼
//     │ W2, W3, W4                                │(D3) Released
//     │ device Bound                              │ │ └─ claimRef cleared ─► (D4) Available ─► (C9)
//     ▼                                           │ │ Delete, or a user deletes it
//   (C8) committing: W5 finalizer and name,       ▼ ▼
//     │ W6 status                               (D5) deleting: undo = deprovision, entries null,
//     ▼                                              finalizer off
//   (C10) bound ─ W7, W8 once a pod names it;   (D6) Available, made by hand: finalizer, entries,
//     │  │  W9 removes the pod's gate                Available
//     │  └─ card or node gone ─► (C11) lost
//     │       ─ unused ─► Failed ─► (D5) ─► (C1)
//     ▼ deleted by its user
//   (C12) releasing: ResourceClaim deleted, not
//         in use, device (D3), finalizer off
//
//   (C5)  For pods: a pod that must not be scheduled (pod/schedulability.h) is no consumer, belongs
//         to no gang, and keeps its gate. A claim that was created for such a pod waits in either
//         binding mode, as WaitingForGates or SchedulerNotServed. Its intent is rolled back unless
//         it is reserved; a Bound device stays. An update of the pod, or of its namespace, requeues
//         the claim (routing.cpp).
//   (C9)  Static: the spec names an Available device, or a device's claimRef without uid names the
//         claim: claimRef (the intent), then as (C7).
//   (C13) The claim is the victim of a claim of higher priority, or moves as its annotation asks:
//         V2 marked, V3 evicted, V4 to V6 its device (D5), then (C1).
//   (C14) A gang member, before (C5) and (C6). It waits as WaitingForGang until the gang has as
//         many members as they state and, if their class waits for pods, their pods. Then the step
//         of the gang, which has a key of its own, decides all undecided members
//         (Allocator::decideGang) and reports on the oldest of them. The step of each member
//         writes its own W1. Whatever its class, a member is Bound as with an Immediate class,
//         without a reservation.
//         The members are exactly as many claims as the annotations state: claims that have
//         something already, then claims that the gang's last step chose (in memory), then the
//         oldest. So no later claim takes a member's place; an intent beyond the size is rolled
//         back. Size and topology are those of the first such claim.
//         The members of a PodGroup's gang (gang/membership.h) are the claims of minCount pods:
//         ungated pods first, then pods whose claims hold something, then the oldest. Once all of
//         these are Bound, further pods are decided one by one, by the same steps. A pod that has
//         Succeeded counts; its claims are gone.
//   (C15) Resizing: a (C10) whose spec requests other amounts than its device has or is on its way
//         to, or whose device is on its way.
//
// ORDER OF WRITES. Each write is idempotent, or carries uid and resourceVersion. After a crash at a
// write, the next step does what is stated here. "Again" is the repetition of the write.
//   W0   Create the claim for an external ResourceClaim, which requests a GPU by itself
//        (resourceclaim/adopter.h). It is found by name and owner reference. Its ResourceClaim is gone: the
//        claim is deleted. A claim that was not made for the ResourceClaim is not touched.
//        A claim that names no gang joins the gang of its pod, by the pod's annotations or
//        otherwise by its PodGroup. This is part of W0, because later the claim might be decided
//        alone.
//        For amounts on a pod, their ResourceClaimTemplate (template/amounts.h) comes before W0. It
//        is found by its name.
//   W1   Create the device. An intent is found by name: adopt it, forget the decision, and do W2 as
//        the intent states. Its claim is gone: rollBack. Only some claims of a pod have W1: gather
//        or startOver.
//   W2   Ledger entries. Again = no-op. 422: rollBack, and decide again with the cards as just
//        read; from the fourth refusal on with backoff. Device gone: the entry is garbage (S1).
//   W3   provision(device uid). The same key gets the same answer. In background: call again. W4
//        rejected because the device was rolled back: deprovision, too (S2). EXISTS: the key has
//        other content; a failure like INVALID. If the process stops during the call, nothing is
//        written, the intent stays, and the next process calls with the same key.
//   W3b  deviceName and paths of a qGPU, or the endpoint of a remote device, as provision replied them; only if the
//        device lacks them, with resourceVersion. Again: provision replies the same, which the device has. 409: as W4.
//   W4   Device status Bound, with resourceVersion, so that a stale rollBack loses. 409: read
//        again; deleting → undo; Bound → continue.
//   W5   Claim: finalizer and name, with resourceVersion. 409: read again. Claim gone, or another
//        uid: release.
//   W6   Claim status. It can be computed from claim and device at any time.
//   W7   Create the ResourceClaim. AlreadyExists: if it is this claim's, continue, and restore
//        marks (finalizer, owner reference) that were removed; if it is an earlier claim's, (S4)
//        removes it; otherwise ResourceClaimConflict. ResourceClaimBridge::of decides whose it is. A claim that was
//        made for a ResourceClaim uses that one. Of its marks only the finalizer is added, before W8, if
//        the API server permits any change of that ResourceClaim (ResourceClaimBridge::markedAsCanBe).
//   W8   Its allocation. Equal → done. Foreign: reported (ResourceClaimConflict) while a pod names the claim
//        or has it reserved; then it is removed and, as if it had been cleared, written again (no
//        memory of the removal is needed after a crash). Cleared: if bound, written again with
//        backoff; if unprovisioned, moveAway. If the scheduler preempts for the pod there
//        (nominatedNodeName): again at once, some times. Not placed in time: moveAway.
//   W9   Pod: pin it and remove the gate. Gate gone → done. Not for a marked device (V2): that is
//        checked again after the pod's volumes are read.
//   W10  Binding of the pod, only for a scheduler that lets the controller bind (pod/pod_binder.h),
//        once the pod's claims are Bound on the node. The pod has that node → done. If the
//        scheduler got no answer, it asks again.
//
//   moveAway: For the pod's unprovisioned claims: remove the allocation if no pod reserves it,
//        reject the node for a while, rollBack. An allocation that the scheduler had not cleared
//        stays empty for some seconds: the scheduler's binding reads the ResourceClaim again, and
//        would reserve any allocation.
//   gather: A pod's claims are on several nodes: each of two pods chose one, or one was held for
//        another pod. Intents that no pod has reserved and that serve no other pod there are rolled
//        back and decided again, except those on the node of the claims that cannot move (if all
//        can: on the node of the first claim by name).
//   startOver: Beside a pod's own such intents there is no capacity for its other claims, but there
//        would be for all of them decided together: roll back, and decide together.
//   firstAvailable: The chosen alternative is part of W1 (spec.alternative of the device). W2 to W6
//        use the device alone. The claim is decided again, over all alternatives, only once that
//        device is rolled back or lost.
//   remote: A claim of remote GPUs has no decision: W1 has neither cards nor node, and there is no W2. W3 gets a lease
//        from the pool with the device's uid as its key, so a repeated call after a crash gets the same lease. W3b is
//        the endpoint; W4 requires it. RESCHEDULE: the pool is full. The intent stays, and W3 is repeated with backoff.
//        W8 names no node but the labels of nodes with an agent, W9 does not pin. undo ends the lease: without the
//        device, (S2) does. With WaitForFirstConsumer, W1 waits for a consumer; its node does not matter.
//   adminAccess: Device and entries have no amounts; W1 to W9 are the usual ones. The label of the
//        namespace is required until W1 only.
//   gang: W1 of some members is written, of others not: the existing intents stay, and the others
//        are decided again, within the group of nodes of the existing ones. No member continues
//        with W3 before all have W2. A member that waits for that for a minute is rolled back. A
//        pod's gate is removed (W9) once all members of its claims' gangs are Bound.
//        A member is Bound, another one lacks its cards (W3 failed, it was deleted, or its card is
//        lost), and no pod of any member was ungated: after a minute the Bound member releases its
//        device, as in V2 to V6 and with their crash points. Its device is marked (Bound, reason
//        WaitingForGang, resourceVersion), so that a stale controller's report of Bound does not go
//        unnoticed (model: gang.py mark=skipped). Its ResourceClaim is deleted. Its pods are gated,
//        by quorum read. The claim is Pending, with the message of this mark. The device is Failed
//        with the marked resourceVersion, then deleted. If the gang is complete again, or a pod was
//        ungated, the mark is removed. A stale leader that removes a gate after that read pins a
//        pod to a node where it gets no device: such a pod must be deleted.
//   rollBack: Delete the device (uid, resourceVersion) FIRST; then undo.
//   held: The device's claim is gone, but a pod that ran at that time, or had its ResourceClaim
//        reserved, still runs, or that ResourceClaim is still reserved. First the pods are
//        recorded, once, as annotation elasticgpu.io/held-for; then condition Held. Crash between:
//        the annotation exists, the condition follows. Later pods of that name use another device.
//        If the claim is being deleted and its ResourceClaim was removed by force: condition Held
//        only.
//   release: Delete the ResourceClaim, wait until reservedFor is empty, finalizer off, gone. (An
//        external one stays, unless its owner deleted it: once no pod reserves it, its allocation
//        is removed.) No running pod names the claim, by a quorum read after the ResourceClaim was
//        seen to go: a tenant can remove claim and ResourceClaim, marks included, by force (model:
//        look=skipped). Device status Released. Delete: delete the device, deprovision, entries
//        null, device finalizer off. Claim finalizer off.
//   lost: Device marked (Bound, reason CardGone; the message names every lost card, and is renewed
//        with each further one); claim Lost. Unused: ResourceClaim deleted, device Failed with the
//        marked resourceVersion, deleted, undone, decided again. Hardware back: first the mark is
//        removed from the device, then the claim is Bound. Without the mark, a stale controller
//        could fail the device of a claim that is Bound again (tests/model/bind.py lost=skipped
//        shows how).
//
// PREEMPTION, V1 to V6, with moves and late gates: priority/victim.h.
// RESIZE, R1 to R6: resize/resizing.h.
//
// REQUEUEING OF A PENDING CLAIM
//
//   waits for                         requeued by
//   capacity on cards or in quotas    Allocator::onCapacity and onQuota: the claims that it may
//                                     suit get turns, in queue order (retry/unschedulable_queue.h).
//                                     Growth (resize) waits in the same way
//   a quota that refused it           another version of the namespace's quotas, in the same turns
//   a search for victims              its turn (priority/plan_queue.h); after a search without
//                                     result, its own backoff
//   its victims                       their devices, and each change of a nomination that names
//                                     them (routing.cpp)
//   members of its gang               the gang's key, which routing.cpp enqueues for each claim
//                                     that is added, leaves, is Bound or loses its device, and for
//                                     a PodGroup with its pods and its own changes. By time:
//                                     further pods, a PodGroup that does not exist, one member
//                                     Bound and another not, and CPU or memory that a pod lacks
//   class, namespace, plugin, named   the events of these objects (routing.cpp)
//   ElasticGPU, PriorityClass,
//   ResourceClaim, pods
//   taints of a node                  Reconciler::node: it ends refusals of the node, and begins a
//                                     round of turns
//   a node that was refused           time (retry/node_backoff.h)
//   a provisioner that refused        time (retry/provision_backoff.h)
//   a plugin without free calls       time (device/provisioning.h)
//
// - A plugin that could not validate a class is called again by the class's step alone, with
//   backoff. Its answer requeues the claims.
// - An intent that a pod has reserved cannot move. The claim's status then reports RESCHEDULE and
//   422, retried with backoff.
// - A held device is requeued by the events of its pods and of its ResourceClaim. The cache keeps
//   the results of the quorum reads.
// - A (D2) device whose claimRef was removed gets it back from the ledger. A (D6) device that
//   failed for lack of capacity is requeued by the entries of its cards.
// - A node is reserved for a claim after ten minutes of pending, and for a gang all its nodes
//   (Allocator).
// - Quotas count decisions, devices and entries alike, so unfinished work of an earlier leader
//   counts for the next one.
// - A decision counts until a device of its claim is seen or adopted, its write is known to have
//   failed, or its claim is gone. The capacity that this frees is like any other. A decision that
//   is a minute old without any of these is drift, and is reported and dropped (Auditor::assumed).
//
// GARBAGE (card/sweeper.cpp; S4: resourceclaim/bridge.cpp; S5: card/surplus_cards.cpp). Keys are never
// reused, so a dead leader's late write is only garbage, and a late null removes only dead entries.
//   (S1) A ledger entry whose device is gone, has another uid, or does not name the card, by a
//        quorum read after the entry was seen.
//   (S2) A key in a plugin's list that no device has, by a quorum list after it: at the start, when
//        the plugin changes, and when a device disappears without our undo.
//   (S3) The finalizer of a deleted card whose ledger is empty.
//   (S4) A ResourceClaim of ours, marked or allocated by us, whose claim is gone.
//   (S5) Cards without entries that 128 cards of their node precede (cards with entries, then the
//        oldest): the rights of an agent do not limit how many cards it creates.
// clang-format on
#pragma once

#include "controller/reconcile/result.h"
