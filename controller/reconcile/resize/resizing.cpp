#include "controller/reconcile/resize/resizing.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "api/v1alpha/size.h"
#include "controller/reconcile/claim/resolve.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/priority/priority.h"
#include "controller/reconcile/queue_key.h"
#include "controller/reconcile/resize/whole_cards.h"

namespace egpu::reconcile {

namespace reason = v1alpha::keys::reason;

namespace {

ConditionUpdate notResized(const cache::Claim& claim, std::string_view reason, std::string message) {
  return ConditionUpdate::of(claim.metadata, ConditionUpdate::As::notResized, reason, std::move(message));
}

/// Returns the requests for which the device has its amounts or its target; empty where no others are allowed.
const core::StringMap& requestsTaken(const cache::Claim& claim, const cache::Gpu& device) {
  return device.spec.target ? device.spec.target->requests : claim.status.requests;
}

v1alpha::DeviceSize nextTarget(const cache::Gpu& device, core::StringMap requests) {
  return {v1alpha::targetNumber(device) + 1, std::move(requests), v1alpha::cardsInForce(device)};
}

std::string textOf(const plugin::Reply& reply, const cache::Gpu& device) {
  return device.spec.provisioner + ": resize: " + std::string(plugin::toString(reply.outcome)) +
         (reply.message.empty() ? "" : ": " + reply.message);
}

/// True if the ledger entry on some card is larger than the device's charge.
bool countsMore(const cache::Stores& stores, const cache::Gpu& device) {
  for (std::size_t i = 0; i < device.spec.cards.size(); ++i) {
    const auto has = v1alpha::cardCharged(device, i);
    const auto card = stores.cards.get({"", has.name});
    if (!card) continue;
    const auto entry = card->spec.allocations.find(device.metadata.uid);
    if (entry == card->spec.allocations.end()) continue;
    if (entry->second.core > has.chargedCore || entry->second.memory > has.chargedMemory) return true;
  }
  return false;
}

}  // namespace

std::optional<Outcome> ClaimResize::reconcile(const cache::Claim& claim, const cache::Gpu& device,
                                              std::stop_token stop) {
  if (auto outcome = followCards(claim, device, stop)) return outcome;
  std::optional<Outcome> result;
  const auto& taken = requestsTaken(claim, device);
  const bool asksOther = !claim.status.requests.empty() && claim.spec.requests != taken;
  if (asksOther && device.metadata.deleting()) {
    context_.cluster.forgetResize(device);
    result = Outcome::done().reports(notResized(
        claim, reason::kNotResizable,
        "device " + device.metadata.name + " is being deleted: it is not resized until the claim is deleted"));
  } else if (asksOther) {
    result = retarget(claim, device, stop);
    if (result->isRequeueNow() || result->isRetry()) return result;
  } else {
    context_.cluster.forgetResize(device);
  }
  if (v1alpha::isResizing(device)) {
    auto outcome = applyTarget(claim, device, stop);
    return result ? std::move(outcome).reports(std::move(result->updates)) : std::move(outcome);
  }
  if (!device.spec.target) return result;
  const auto lowered = shrinkLedgerEntries(claim, device, stop);  // R5
  if (lowered.ok()) return result;
  return lowered.code() == base::Code::conflict ? Outcome::requeueNow() : Outcome::retry(lowered);
}

std::optional<Outcome> ClaimResize::followCards(const cache::Claim& claim, const cache::Gpu& device,
                                                std::stop_token stop) {
  if (v1alpha::isResizing(device) || device.metadata.deleting()) return std::nullopt;
  const auto size = sizeOfItsCards(context_.stores, claim, device);
  if (!size) return std::nullopt;
  // The ledger or the plugin refused the same size before.
  if (const auto refusal = context_.waiting.resizes.refusal(claim.metadata.uid, size->requests);
      !refusal.reason.empty())
    return Outcome::after(refusal.endsIn);
  return Outcome::nextState(context_.binder.writeTarget(device, *size, stop).status());  // R1
}

base::Status ClaimResize::shrinkLedgerEntries(const cache::Claim& claim, const cache::Gpu& device,
                                              std::stop_token stop) {
  // The entry exceeds the memory of the card: the excess is neither used nor free for other claims.
  if (takesWholeCards(claim, device)) return context_.binder.writeEntries(device, stop);
  // Running containers keep the limits that they began with, so the capacity that they may use stays charged.
  if (countsMore(context_.stores, device)) {
    const auto used = context_.users.isInUseNow(core::keyOf(claim.metadata), device.spec.nodeName, stop);
    if (!used.ok()) return used.status();
    if (*used) return context_.binder.restoreEntries(device, false, stop);  // the end of the pods requeues the claim
  }
  return context_.binder.writeEntries(device, stop);
}

Outcome ClaimResize::retarget(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  const auto reports = [&](std::string_view why, std::string text) {
    return Outcome::done().reports(notResized(claim, why, std::move(text)));
  };
  if (!mayResize(claim, device))
    return reports(reason::kNotResizable, "class " + device.spec.className +
                                              " does not set resizable for this device: it keeps its amounts; restore "
                                              "spec.resources.requests");
  if (auto never = context_.provisioning.cannotResize(device); !never.empty())
    return reports(reason::kNotResizable, never + ": it keeps its amounts; restore spec.resources.requests");
  std::string away;
  if (!device.spec.provisioner.empty() && context_.provisioning.find(device.spec.provisioner, &away) == nullptr)
    return Outcome::after(context_.timeouts.absentPluginInterval)
        .reports(notResized(claim, reason::kProvisionerUnavailable, away));
  if (auto refusal = context_.waiting.resizes.refusal(claim.metadata.uid, claim.spec.requests); !refusal.reason.empty())
    return Outcome::after(refusal.endsIn).reports(notResized(claim, refusal.reason, refusal.message));
  auto made = scheduler::makeRequest(claim, classOfDevice(device));
  if (const auto* refusal = std::get_if<scheduler::Refusal>(&made))
    return reports(refusal->reason, (refusal->field.empty() ? "" : refusal->field + ": ") + refusal->message);
  allocator::Allocator::SchedulingRequest ask{
      claim.metadata.uid,
      core::keyOf(claim.metadata).str(),
      std::get<scheduler::Request>(std::move(made)),
      {},
      device.spec.className,
      queueOrderOf(claim, priorityOf(context_.stores, claim).value, context_.clock.wall())};
  // Before the decision, so that capacity and quotas that change from now on requeue the claim.
  const auto queueKey = claimKey(core::keyOf(claim.metadata));
  const auto admission = context_.waiting.unschedulable.add(queueKey, ageOf(claim.metadata), ask.order.priority);
  ask.order.releases = admission.releases;
  const auto decided = context_.cluster.decideResize(ask, device, admission.isGranted);
  if (!decided)
    return admission.isGranted ? Outcome::requeueNow() : Outcome::after(context_.timeouts.queueYieldTimeout);
  const auto& resizing = *decided;
  using DecisionResult = UnschedulableQueue::DecisionResult;
  if (context_.waiting.unschedulable.decided(queueKey,
                                             resizing.inPlace ? DecisionResult::capacity : DecisionResult::nothing))
    context_.enqueue(capacityKey());
  if (!resizing.inPlace) return noResize(claim, device, ask, resizing);
  context_.waiting.remove(queueKey);
  const auto cls = context_.stores.classes.get({"", device.spec.className});
  const auto no =
      cls && resizing.grows() ? accessRefusal(context_.stores, *cls, claim.metadata.namespace_) : std::nullopt;
  if (no) {
    context_.cluster.forgetResize(device);
    return Outcome::after(context_.timeouts.accessRecheckInterval).reports(notResized(claim, no->reason, no->message));
  }
  return writeTarget(claim, device, resizing, stop);
}

Outcome ClaimResize::writeTarget(const cache::Claim& claim, const cache::Gpu& device,
                                 const scheduler::Resizing& resizing, std::stop_token stop) {
  auto target = nextTarget(device, claim.spec.requests);
  for (std::size_t i = 0; i < target.cards.size(); ++i) {
    const auto& placement = resizing.placements[i];
    target.cards[i].core = placement.granted.core;
    target.cards[i].memory = placement.granted.memory;
    target.cards[i].chargedCore = placement.charged.core;
    target.cards[i].chargedMemory = placement.charged.memory;
  }
  const auto written = context_.binder.writeTarget(device, target, stop);  // R1
  if (written.ok()) return Outcome::requeueNow();
  const auto code = written.status().code();
  // If the result of the write is unknown, the decision counts until the device is seen or decided again.
  if (code != base::Code::unknownOutcome && code != base::Code::deadline) context_.cluster.forgetResize(device);
  return Outcome::nextState(written.status());
}

Outcome ClaimResize::noResize(const cache::Claim& claim, const cache::Gpu& device,
                              const allocator::Allocator::SchedulingRequest& ask, const scheduler::Resizing& resizing) {
  const std::string_view why = resizing.excess ? reason::kScalingQuotaExceeded : reason::kResizeInfeasible;
  const auto* old = findCondition(claim.status.conditions, kResized);
  const bool reported = old != nullptr && old->reason == why;
  // Free and used amounts change all the time, so they are written at intervals only.
  if (!context_.waiting.resizes.mayExplain(claim.metadata.uid, claim.spec.requests) && reported)
    return Outcome::after(context_.timeouts.explainInterval);
  if (resizing.excess) {
    auto text = resizing.excess->text();
    if (const auto who = context_.cluster.queries().quotaHolders(*resizing.excess, true); !who.empty())
      text += "; " + who;
    return Outcome::done().reports(notResized(claim, why, std::move(text)));
  }
  auto text = resizing.why;
  if (auto withheld = context_.cluster.queries().withheldText(ask); !withheld.empty()) text += "; " + withheld;
  const auto cls = context_.stores.classes.get({"", device.spec.className});
  const bool immediate = cls && cls->bindingMode == "Immediate";
  const auto suits = immediate ? toleratedNodes(context_.stores, *cls) : scheduler::NodePredicate();
  const auto elsewhere = context_.cluster.queries().decideWithout(ask, device, suits);
  text += elsewhere.fits ? "; a new claim for these amounts would fit on node " + elsewhere.node
                         : "; a new claim for these amounts would fit nowhere now, even without this one";
  return Outcome::done().reports(notResized(claim, why, std::move(text)));
}

Outcome ClaimResize::applyTarget(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  const auto entries = context_.binder.writeEntries(device, stop);  // R2
  if (!entries.ok()) {
    if (entries.code() == base::Code::conflict) return Outcome::requeueNow();
    if (entries.code() != base::Code::invalid) return Outcome::retry(entries);
    context_.waiting.resizes.refused(claim.metadata.uid, device.spec.target->requests, reason::kResizeInfeasible,
                                     "the ledger refuses: " + entries.message(),
                                     context_.timeouts.firstResizeLedgerBackoff,
                                     context_.timeouts.maxResizeLedgerBackoff);
    return rollBackTarget(claim, device, entries, stop);
  }
  // R3. A plugin that can't resize need not know how much memory a whole card has.
  const bool asked = !changesMemoryOnly(device) || context_.provisioning.cannotResize(device).empty();
  const auto reply = asked ? context_.provisioning.resize(device) : plugin::Reply{};
  if (!reply) return Outcome::after(context_.provisioning.delay(device));
  if (reply->ok())
    return Outcome::nextState(context_.binder.commitTarget(device, reply->isolation, stop).status());  // R4
  const auto text = textOf(*reply, device);
  switch (reply->outcome) {
    case plugin::ReplyCode::inProgress:
      return Outcome::after(context_.timeouts.backgroundCallInterval)
          .reports(notResized(claim, reason::kResizing, text));
    case plugin::ReplyCode::reschedule:
    case plugin::ReplyCode::exists:
    case plugin::ReplyCode::invalid:
      context_.waiting.resizes.refused(claim.metadata.uid, device.spec.target->requests, reason::kResizeFailed, text,
                                       context_.timeouts.resizeRefusalBackoff, context_.timeouts.resizeRefusalBackoff);
      return rollBackTarget(claim, device, {base::Code::unavailable, text}, stop);
    default:
      return Outcome::retry({base::Code::unavailable, text})
          .reports(notResized(claim, reason::kProvisionerUnavailable, text));
  }
}

Outcome ClaimResize::rollBackTarget(const cache::Claim& claim, const cache::Gpu& device, const base::Status& why,
                                    std::stop_token stop) {
  // The device is on its way back already: retry with the plugin or the ledger that refuses it.
  if (v1alpha::cardsWanted(device) == v1alpha::cardsInForce(device)) return Outcome::retry(why);
  const auto& requests = device.status.inForce ? device.status.inForce->requests : claim.status.requests;
  return Outcome::nextState(context_.binder.writeTarget(device, nextTarget(device, requests), stop).status());  // R1
}

}  // namespace egpu::reconcile
