// (C15) A bound claim requests other amounts: R1 to R6, and the reasons why a resize is refused. This is a part of
// state_machine.h.
// clang-format off
//
// RESIZE. (C15) Only if the class is resizable and the device was made for the claim. Growing and
// shrinking use one order, so that an entry is never below the amounts in force. Each target has a
// number, higher than that of the previous one; a new target may come at any time. Too large, over
// quota, or no such slot in the plugin: reported (Resized is False), and nothing is written. Growing
// waits in queue order, as pending claims do; shrinking does not.
//   R1   Device spec.target, with resourceVersion: the intent. It has amounts on the same cards,
//        and the requests that they are made of. 409: read again. Crash: found because its number
//        differs from that of status.inForce; then R2 as it states, or another R1.
//   R2   Ledger entries at the maximum of the target, the amounts in force and the present entry,
//        with the target's number. No amount goes down, because an earlier target may have been
//        applied. Again = no-op. The API server rejects a lower number than that of the entry (a
//        dead leader's W2, R2 or R5), and a higher number with smaller amounts. 422 for lack of
//        capacity: R1 back to the amounts in force.
//   R3   resize(device uid, number). Again = the same answer; a plugin rejects a lower number than
//        one that it applied. INVALID, EXISTS, RESCHEDULE: R1 back to the amounts in force, and
//        these requests are not tried for a while.
//   R4   Device status.inForce, with resourceVersion: the commit. 409: read again; if there is
//        another target, R2 for that one.
//   R5   Ledger entries at the target; its number stays. These are the first amounts that go down,
//        and not before the running pods have ended: their containers keep the amounts that they
//        started with. Again = no-op; a late R5 is rejected by its number. (A dead leader's late R2
//        of that number is not rejected, and raises the entries again: the auditor lets this step
//        lower them.)
//   R6   Claim status: requests and capacity in force, condition Resized. Like W6 it can be
//        computed at any time. While status.requests is not set, the API server rejects changes of
//        the requests in the spec. (tests/model/bind.py resize: early, unpaid, unordered, lowered
//        and late show the purpose of each of these rules.)
//
//   meanwhile: The claim is released, failed or lost during a resize: the target stays, and the
//        entries stay at the larger of both; undo removes all.
//   follow: A claim of whole cards (resize/whole_cards.h) whose card has more or less usable memory
//        than it was charged: R1 with the present memory of each card and unchanged requests, then
//        R2 to R6, whether the class is resizable or not. R2 with less memory keeps the entry,
//        which the API server permits on a card that shrank. R3 only if its plugin can resize: the
//        memory of a whole card limits nothing. R5 does not wait for running pods: the card has no
//        more. Rejected (422, INVALID): R1 back, with backoff. Crash: as above; a card that changes
//        meanwhile gets a target of the next number. Until R5, the agent grants the smaller of
//        charge and card for a physicalGPU. Shares (with an amount of memory) stay; claim, device
//        (Healthy) and card (SharesFit) report them.
//   undo: Deprovision, entries null, finalizer off: each again = no-op. A late entry or provision
//        is garbage of a dead uid.
//   binding: While a pod is being bound (pod/chosen_nodes.h, in memory), the pod's step decides for
//        that node alone, and the claim's step continues from W8 with W3 without a reservation. If
//        the binding ends without W10, or a crash forgets it: the pod's step rolls back the intents
//        that are not Bound (leaveToScheduler) or, for a pod of another served scheduler, they wait
//        for a reservation as usual.
// clang-format on
#pragma once

#include <optional>
#include <stop_token>

#include "controller/reconcile/claim/context.h"

namespace egpu::reconcile {

/// Thread-safe, but one thread per claim at a time. The context must outlive it.
class ClaimResize {
 public:
  explicit ClaimResize(const ClaimContext& context) : context_(context) {}

  /// For a claim whose device is Bound. Nullopt: the requests in the spec are in force.
  std::optional<Outcome> reconcile(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);

 private:
  /// Handles requests that the device neither has nor is on its way to: writes R1, or reports why not.
  Outcome retarget(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Writes R1 for a claim of whole cards if the memory of its cards changed.
  std::optional<Outcome> followCards(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Writes R5, except for amounts that running pods started with.
  base::Status shrinkLedgerEntries(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  Outcome writeTarget(const cache::Claim& claim, const cache::Gpu& device, const scheduler::Resizing& resizing,
                      std::stop_token stop);
  /// Reports a resize that its cards or its quotas have no capacity for.
  Outcome noResize(const cache::Claim& claim, const cache::Gpu& device,
                   const allocator::Allocator::SchedulingRequest& ask, const scheduler::Resizing& resizing);
  /// Executes R2 to R4 for the current target.
  Outcome applyTarget(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Rolls the target back to the amounts in force because it cannot be reached.
  Outcome rollBackTarget(const cache::Claim& claim, const cache::Gpu& device, const base::Status& why,
                         std::stop_token stop);

  const ClaimContext& context_;
};

}  // namespace egpu::reconcile
