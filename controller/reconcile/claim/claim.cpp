#include "controller/reconcile/claim/claim.h"

#include <algorithm>
#include <variant>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "controller/base/log.h"
#include "controller/reconcile/api_rejections.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/gang/gang_choice.h"
#include "controller/reconcile/queue_key.h"
#include "controller/reconcile/resourceclaim/adopter.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {
constexpr milliseconds kAvailableSoon{500};
constexpr milliseconds kUsualCall{1'000};
constexpr milliseconds kNameTaken{15'000};
/// Backoff after a refusal by the provisioner; maximum after refusals by the API server.
constexpr milliseconds kRefusedFor{300'000};
constexpr int kStaleDecisions = 3;  ///< refusals of a claim by ledgers that still count as lost races

/// Backoff of a claim after the API server has answered 422 to its decision for the `times`-th time.
milliseconds afterRefusals(int times) { return std::min(milliseconds(1000 << std::min(times - 1, 10)), kRefusedFor); }
}  // namespace

Outcome ClaimSync::step(const core::ObjectKey& key, std::stop_token stop) {
  const auto claim = stores_.claims.get(key);
  auto outcome = look(key, claim, stop);
  if (claim) forgetIfGone(key, claim->metadata.uid);
  return outcome;
}

void ClaimSync::forgetIfGone(const core::ObjectKey& key, const std::string& uid) {
  const auto now = stores_.claims.get(key);
  if (!now || now->metadata.uid != uid) waiting_.forgetClaim(uid);
}

Outcome ClaimSync::look(const core::ObjectKey& key, const ClaimPtr& claim, std::stop_token stop) {
  // Drops assumptions of an earlier claim of this name, left by a write of unknown outcome.
  cluster_.forgetEarlier(key.str(), claim ? claim->metadata.uid : std::string());
  if (!claim) return Outcome::done();  // devices that name it have steps of their own
  if (claim->metadata.deleting()) return reportHealth(*claim, releasing(claim, stop), stop);
  auto device = deviceOf(*claim);
  if (!device) return unbound(claim, stop);
  if (auto outcome = reconcileVictim(claim, device, stop)) return reportHealth(*claim, *std::move(outcome), stop);
  milliseconds again{0};
  if (auto outcome = releaseIncompleteGang(claim, device, &again, stop))
    return reportHealth(*claim, *std::move(outcome), stop);
  if (device->status.phase == phase::kFailed)
    return lost(claim, device, device->status.message.empty() ? "the device failed" : device->status.message, stop);
  if (device->status.phase == phase::kBound) {
    auto outcome = committing(claim, device, stop);
    return outcome.isDone() && again.count() > 0 ? Outcome::after(again).reports(std::move(outcome.updates)) : outcome;
  }
  // Released by hand: the controller releases only devices of claims that are being deleted.
  if (device->status.phase == phase::kReleased)
    return lost(claim, device, "device " + device->metadata.name + " was released under the claim", stop);
  // OBSERVATION: phase is "", Pending or Available: not committed.
  if (device->metadata.deleting()) return rolledBack(*claim, *device);
  if (isStatic(*claim) && device->metadata.name != claim->spec.elasticGPUName && !reserved(*claim) &&
      std::none_of(device->spec.cards.begin(), device->spec.cards.end(),
                   [&](const auto& share) { return share.name == claim->spec.elasticGPUName; }))
    return rollBack(*claim, *device, {}, stop);  // its user named a card meanwhile
  return syncIntent(claim, device, stop);
}

/// The last event of the device requeues the claim. Until then the claim reports why the device remains.
Outcome ClaimSync::rolledBack(const cache::Claim& claim, const cache::Gpu& device) {
  if (device.status.reason != reason::kProvisionerUnavailable) return Outcome::done();
  return Outcome::done().reports(
      notBound(claim, reason::kProvisionerUnavailable,
               "waits for its device " + device.metadata.name + ", which is rolled back: " + device.status.message));
}

Outcome ClaimSync::reportHealth(const cache::Claim& claim, Outcome outcome, std::stop_token stop) {
  if (outcome.isRequeueNow() || outcome.isRetry()) return outcome;
  const auto now = stores_.claims.get(core::keyOf(claim.metadata));
  if (!now || now->metadata.uid != claim.metadata.uid || now->status.phase != phase::kBound) return outcome;
  const auto device = deviceOf(*now);
  if (!device || device->status.phase != phase::kBound) return outcome;
  const auto told = status_.health(*now, *device, stop);
  if (!told.ok()) return Outcome::nextState(told.status());
  return *told ? Outcome::requeueNow() : outcome;  // the condition updates are for the claim before this write
}

Outcome ClaimSync::reportSlowProvisioning(const std::string& plugin) {
  const auto underWay = provisioning_.underWay(plugin);
  auto outcome = underWay.empty() ? Outcome::done() : Outcome::after(kUsualCall);
  for (const auto& [key, since] : underWay) {
    if (clock_.now() - since < kUsualCall) continue;
    const auto claim = stores_.claims.get(key);
    if (!claim || claim->metadata.deleting() || claim->status.phase == phase::kBound) continue;
    const auto* bound = findCondition(claim->status.conditions, kBound);
    if (bound != nullptr && bound->reason == reason::kProvisioning) continue;
    // The claim's own step waits for the plugin and continues with the claim in the store.
    outcome.updates.push_back(notBound(*claim, reason::kProvisioning, plugin + ": provisioning"));
  }
  return outcome;
}

cache::Store<cache::Gpu>::Ptr ClaimSync::deviceOf(const cache::Claim& claim) const {
  return heldDeviceOf(stores_, claim);
}

bool ClaimSync::isStatic(const cache::Claim& claim) {
  return !claim.spec.elasticGPUName.empty() && claim.spec.elasticGPUName != deviceNameFor(claim);
}

bool ClaimSync::waitsForConsumer(const cache::Claim& claim) const { return !inGang(claim) && classWaits(claim); }

bool ClaimSync::classWaits(const cache::Claim& claim) const {
  // If it is decided, uses the class that decided it: the default class may be another one by now.
  if (auto device = deviceOf(claim); device && !device->spec.className.empty()) {
    auto cls = stores_.classes.get({"", device->spec.className});
    return cls && cls->bindingMode == "WaitForFirstConsumer";
  }
  auto cls = classOf(stores_, claim, nullptr);
  return cls && cls->bindingMode == "WaitForFirstConsumer";
}

Outcome ClaimSync::unbound(const ClaimPtr& claim, std::stop_token stop) {
  if (claim->spec.elasticGPUName == deviceNameFor(*claim) || !claim->status.elasticGPUName.empty())
    if (const auto outcome = withoutItsDevice(claim, stop)) return *outcome;
  const auto obstacle = obstacleNow(*claim, stop);
  if (!obstacle.ok()) return Outcome::retry(obstacle.status());
  // A claim made by hand gets the device that it names, whatever the obstacle.
  const bool given = !*obstacle || madeFor(*claim).empty();
  if (const auto outcome = given ? givenDevice(claim, stop) : std::nullopt) {
    cluster_.releaseReservation(claim->metadata.uid);
    return *outcome;
  }
  const auto asked = ask(*claim);
  if (asked.later) return Outcome::after(kPluginBusy);
  if (!asked.cls) {  // classes and claims come by different watches
    const auto come = classExistsNow(*claim, stop);
    if (!come.ok()) return Outcome::retry(come.status());
    if (*come) return Outcome::requeueNow();
  }
  if (!asked.ok()) {
    cluster_.forget(claim->metadata.uid);
    return Outcome::done().reports(asked.refusal(*claim));
  }
  if (*obstacle) return awaitPods(*claim, *obstacle);
  const bool member = inGang(*claim);
  if (auto refusal = waiting_.provisioners.refusal(claim->metadata.uid); !refusal.empty()) {
    if (member && cluster_.decidedInGang(claim->metadata.uid)) {
      cluster_.forget(claim->metadata.uid);
      for (const auto& pod : stores_.podsOfClaim(core::keyOf(claim->metadata)))
        enqueue_(podKey(core::keyOf(pod->metadata)));  // the pod's capacity on the node was planned with this decision
    }
    return refused(*claim, refusal);
  }
  if (member) return withGang(claim, asked, stop);
  return isDecidedByPod(stores_, *claim) ? leaveToConsumer(claim) : choose(*claim, asked, stop);
}

std::optional<Outcome> ClaimSync::withoutItsDevice(const ClaimPtr& claim, std::stop_token stop) {
  // OBSERVATION: the claim names its own device, or reports Bound, and the cache lacks that device: it is late, or
  // gone.
  const auto& name = claim->status.elasticGPUName.empty() ? claim->spec.elasticGPUName : claim->status.elasticGPUName;
  const auto& uid = claim->metadata.uid;
  const bool waits = claim->status.phase != phase::kBound && claim->status.phase != phase::kLost;
  const bool ownName = name == deviceNameFor(*claim);
  // A claim that released its device as a victim: no read per step is needed. W1 would find the device.
  if (waits && ownName && waiting_.released.contains(uid)) return std::nullopt;
  auto now = writer_.read<cache::Gpu>({"", name}, {}, stop);
  if (now.ok() && belongsTo(*now, *claim)) return Outcome::requeueNow();
  if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
  if (now.ok() && name == deviceNameFor(*claim) && !now->spec.claimRef && !now->metadata.deleting()) {
    // The claimRef was removed by hand, and no other claim has the device: by its name it is this claim's.
    if (now->status.phase == phase::kAvailable)
      return staticallyBound(claim, std::make_shared<const cache::Gpu>(*now), stop);
    if (now->status.phase != phase::kFailed) return Outcome::after(kAvailableSoon);
  }
  if (claim->status.phase == phase::kBound) {
    auto outcome = lost(claim, nullptr, "device " + name + " is gone", stop);
    return outcome.isDone() ? Outcome::requeueNow().reports(std::move(outcome.updates)) : outcome;
  }
  if (claim->status.phase == phase::kLost) {
    const auto named = isStatic(*claim) ? stores_.gpu(claim->spec.elasticGPUName) : nullptr;
    const bool waitsForNamed = isStatic(*claim) && (!named || named->metadata.deleting());
    if (waitsForNamed || inUse(*claim)) return Outcome::done();
    const auto carrier = carrier_.release(core::keyOf(claim->metadata), claim->metadata.uid, name, stop);
    if (carrier.state == ResourceClaimBridge::Release::failed) return Outcome::retry(carrier.error);
    if (carrier.state == ResourceClaimBridge::Release::inUse) return Outcome::done();
  }
  if (waits && ownName && !now.ok()) waiting_.released.add(uid);
  return std::nullopt;
}

Outcome ClaimSync::awaitPods(const cache::Claim& claim, const PodObstacle& obstacle) {
  cluster_.forget(claim.metadata.uid);
  cluster_.releaseReservation(claim.metadata.uid);
  return Outcome::done().reports(notBound(claim, obstacle.reason, obstacle.message));
}

Outcome ClaimSync::leaveToConsumer(const ClaimPtr& claim) {
  const auto choosers = waiting_.consumers.choosersOf(stores_, *claim);
  const bool consumed = !choosers.pods.empty();
  // The event that requeued this claim may also have removed a pod's obstacle to choosing.
  for (const auto& pod : choosers.pods) enqueue_(podKey(pod));
  if (!consumed) cluster_.releaseReservation(claim->metadata.uid);
  const auto* bound = findCondition(claim->status.conditions, kBound);
  const bool isOver = consumed && bound != nullptr && isObstacle(*bound);
  auto outcome = choosers.inTurns ? Outcome::after(ConsumerTurns::kTurnInterval) : Outcome::done();
  // The nomination for the pod's claims stays as long as all of them exist.
  if (consumed && !isOver && !(claim->status.nominated && preemptionGroup(claim).empty())) return outcome;
  return std::move(outcome).reports(
      notBound(*claim, reason::kWaitingForConsumer,
               consumed ? "waits for the other claims of its pod" : "waits for the first pod that uses the claim"));
}

Outcome ClaimSync::choose(const cache::Claim& claim, const ResolvedClaim& asked, std::stop_token stop) {
  const auto queueKey = claimKey(core::keyOf(claim.metadata));
  const auto& uid = claim.metadata.uid;
  // Before deciding: capacity that becomes free, and taints that are removed, from now on requeue this claim.
  const bool mayLook = waiting_.room.add(queueKey, ageOf(claim.metadata), asked.turn.priority, needsOf(claim, asked));
  if (!mayLook) return Outcome::after(UnschedulableQueue::kYieldTimeout);
  // No pod is known, so the tolerations of the class count.
  const bool anyRejected = waiting_.nodes.anyRejected(uid);
  const auto nodes = anyRejected ? std::string() : toleratedNodesText(stores_, *asked.cls);
  const auto tolerated = toleratedNodes(stores_, *asked.cls);
  const auto suits = !anyRejected ? tolerated : scheduler::NodePredicate([this, &uid, &tolerated](auto node) {
    return !waiting_.nodes.rejected(uid, node) && (!tolerated || tolerated(node));
  });
  auto decided = decideFirst(claim, asked, suits, nodes);
  using Found = UnschedulableQueue::Found;
  if (auto* later = std::get_if<Outcome>(&decided)) {
    if (waiting_.room.decided(queueKey, Found::unknown)) enqueue_(roomKey());
    return std::move(*later);
  }
  const auto& tried = std::get<std::vector<scheduler::Decision>>(decided);
  if (waiting_.room.decided(queueKey, tried.back().fits ? Found::room : Found::nothing)) enqueue_(roomKey());
  if (tried.back().fits) {
    waiting_.remove(queueKey);
    return writeIntent(claim, *asked.cls, tried.back(), stop);
  }
  auto outcome = noneFits(claim, asked, tried, suits, nodes, stop);
  const auto wait = waiting_.nodes.untilNextNode(uid);
  return outcome.isDone() && wait.count() > 0 ? Outcome::after(wait).reports(std::move(outcome.updates)) : outcome;
}

scheduler::Decision ClaimSync::decide(const cache::Claim& claim, const ResolvedClaim& asked,
                                      const scheduler::NodePredicate& suits, const std::string& nodes) {
  const auto& uid = claim.metadata.uid;
  auto ask = asked.of(claim, nodes);
  const auto elsewhere = [&](std::string_view node) {
    return !waiting_.nodes.wasRefusedOn(uid, node) && (!suits || suits(node));
  };
  if (!waiting_.nodes.anyRefused(uid)) return cluster_.decideAndAssume(ask, suits);
  ask.nodes.clear();
  const bool first = std::exchange(ask.first, false);  // no reservation is made from a subset of the nodes
  auto decision = cluster_.decideAndAssume(ask, elsewhere);
  if (decision.fits) return decision;
  ask.first = first;
  ask.nodes = nodes;
  waiting_.nodes.forgetRefused(uid);
  return cluster_.decideAndAssume(ask, suits);
}

Outcome ClaimSync::writeIntent(const cache::Claim& claim, const cache::Class& cls, const scheduler::Decision& decision,
                               std::stop_token stop) {
  const auto& uid = claim.metadata.uid;
  const auto device = binder_.writeIntent(claim, cls, decision, stop);  // W1
  if (!device.ok()) {
    // Another node may be accepted.
    if (ApiRejections::isRefusal(device.status())) waiting_.nodes.refusedOn(uid, decision.node);
    if (device.status().code() != base::Code::invalid) return Outcome::retry(device.status());
    const auto why = "the device was refused: " + device.status().message();  // a policy may change, which is no event
    waiting_.provisioners.refused(uid, cls.provisioner, why, afterRefusals(waiting_.provisioners.serverRefused(uid)));
    return refused(claim, why);
  }
  waiting_.released.forgetClaim(uid);
  if (!belongsTo(*device, claim))  // the end of that object is no event of this claim
    return Outcome::after(kNameTaken)
        .reports(notBound(claim, reason::kProvisionFailed,
                          "an ElasticGPU named " + device->metadata.name + " exists and isn't this claim's"));
  return Outcome::requeueNow();  // (C7), or the state of an adopted device
}

Outcome ClaimSync::refused(const cache::Claim& claim, const std::string& message) {
  cluster_.releaseReservation(claim.metadata.uid);
  return Outcome::after(waiting_.provisioners.untilRefusalEnds(claim.metadata.uid))
      .reports(notBound(claim, reason::kProvisionFailed, message));
}

Outcome ClaimSync::syncIntent(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
  // A device that existed before its claim stays on its node: no consumer chooses it.
  const bool late = classWaits(*claim) && !isStatic(*claim) && device->status.phase != phase::kAvailable;
  if (!reserved(*claim)) {
    const auto obstacle = obstacleNow(*claim, stop);
    if (!obstacle.ok()) return Outcome::retry(obstacle.status());
    const bool forPods = late || !madeFor(*claim).empty();
    // Rolls back if the consumer left before it reserved the claim, or may not be scheduled.
    if ((late && !hasConsumer(stores_, *claim)) || (forPods && *obstacle)) return rollBack(*claim, *device, {}, stop);
  }
  const auto entries = binder_.writeEntries(*device, stop);  // W2
  if (!entries.ok()) {
    if (entries.code() != base::Code::invalid) return Outcome::retry(entries);
    // (D1) 422: the decision was stale. Repeated refusals have another reason, and deciding at once would repeat them.
    const int times = waiting_.provisioners.serverRefused(claim->metadata.uid) - kStaleDecisions;
    if (times > 0)
      waiting_.provisioners.refused(claim->metadata.uid, device->spec.provisioner,
                                    "the ledger refuses: " + entries.message(), afterRefusals(times));
    if (reserved(*claim)) return stuck(*claim, entries.message());
    return rollBack(*claim, *device, {}, stop);
  }
  if (late && !inGang(*claim)) return waitForReservation(claim, device, stop);
  if (auto outcome = awaitGang(*claim, *device, stop)) return *std::move(outcome);
  return provision(claim, device, stop);
}

Outcome ClaimSync::provision(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
  if (auto refusal = waiting_.provisioners.refusal(claim->metadata.uid); !refusal.empty())
    return reserved(*claim) ? refused(*claim, refusal) : rollBack(*claim, *device, {}, stop);
  const auto reply = provisioning_.provision(*device);  // W3
  if (!reply) return Outcome::after(provisioning_.delay(*device));
  if (!reply->ok()) {
    // If the call took long, the claim was updated meanwhile: report on its current version.
    const auto now = stores_.claims.get(core::keyOf(claim->metadata));
    if (!now || now->metadata.uid != claim->metadata.uid) return Outcome::done();  // its device's step continues
    return notProvisioned(*now, *device, *reply, stop);
  }
  const auto now = binder_.commitDevice(*device, stop);  // W4
  if (!now.ok()) {
    // 409, 404: the device was read again. Bound: continue. Rolled back meanwhile: its undo may have run before the
    // plugin provisioned, so undo that, too.
    auto current = stores_.devices.get({"", device->metadata.name});
    const bool gone = !current || current->metadata.uid != device->metadata.uid;
    if (gone || (current->metadata.deleting() && !committed(*current))) {
      const auto undone = provisioning_.deprovision(*device);
      if (!undone || !undone->ok()) enqueue_(pluginKey(device->spec.provisioner));  // (S2)
    }
    return Outcome::afterWrite(now.status());
  }
  return Outcome::requeueNow();  // (C8)
}

Outcome ClaimSync::notProvisioned(const cache::Claim& claim, const cache::Gpu& device, const plugin::Reply& reply,
                                  std::stop_token stop) {
  const auto text = device.spec.provisioner + ": " + std::string(plugin::toString(reply.outcome)) +
                    (reply.message.empty() ? "" : ": " + reply.message);
  const auto says = [&](std::string_view why) { return notBound(claim, why, text); };
  switch (reply.outcome) {
    case plugin::ReplyCode::ok:
    case plugin::ReplyCode::noChange:
      break;
    case plugin::ReplyCode::inProgress:
      return Outcome::after(kPollBackground).reports(says(reason::kProvisioning));
    case plugin::ReplyCode::reschedule: {
      const bool fixed = reserved(claim) || device.status.phase == phase::kAvailable;  // it cannot be decided again
      return fixed ? stuck(claim, text) : rollBack(claim, device, text, stop);
    }
    case plugin::ReplyCode::exists:  // the plugin has other content under this key
    case plugin::ReplyCode::invalid: {
      waiting_.provisioners.refused(claim.metadata.uid, device.spec.provisioner, text, kRefusedFor);
      auto outcome = reserved(claim) ? Outcome::after(kRefusedFor) : rollBack(claim, device, {}, stop);
      return std::move(outcome).reports(says(reason::kProvisionFailed));
    }
    case plugin::ReplyCode::internal:
      if (auto outcome = failsGang(claim, device, text, stop)) return *std::move(outcome);
      return Outcome::retry({base::Code::internal, text}).reports(says(reason::kProvisionFailed));
    case plugin::ReplyCode::unavailable:
    case plugin::ReplyCode::timeout:
    case plugin::ReplyCode::crashed:
    case plugin::ReplyCode::garbage:
      if (auto outcome = failsGang(claim, device, text, stop)) return *std::move(outcome);
      return Outcome::retry({base::Code::unavailable, text}).reports(says(reason::kProvisionerUnavailable));
  }
  return Outcome::done();
}

Outcome ClaimSync::committing(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
  if (auto gone = hardwareGone(*device); !gone.empty()) return lost(claim, device, gone, stop);
  if (device->status.reason == reason::kCardGone)
    // The hardware is back. The device is written first, so that a stale controller's Failed has an old
    // resourceVersion.
    return Outcome::nextState(binder_.setPhase(*device, phase::kBound, "", "", stop).status());
  const auto now = binder_.commitClaim(*claim, *device, stop);  // W5
  const bool wrote = now.ok() && now->metadata.resourceVersion != claim->metadata.resourceVersion;
  if (!now.ok() || wrote) return Outcome::nextState(now.status());  // if it is gone, the device's step releases it
  waiting_.forgetChoice(claim->metadata.uid);
  const auto status = status_.bound(*claim, *device, stop);  // W6
  if (!status.ok()) return Outcome::nextState(status);
  boundAt_ = clock_.now();
  return bound(*claim, *device, stop);
}

Outcome ClaimSync::bound(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  auto outcome = carried(claim, device, stop);
  const auto current = stores_.claims.get(core::keyOf(claim.metadata));  // as updated by W6
  if (!current || current->metadata.uid != claim.metadata.uid) return outcome;
  auto resize = resizing(*current, device, stop);
  return resize ? std::move(outcome).mergeWith(*std::move(resize)) : outcome;
}

Outcome ClaimSync::carried(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  const auto current = stores_.claims.get(core::keyOf(claim.metadata));  // as updated by W6
  if (!current || current->metadata.uid != claim.metadata.uid) return Outcome::done();
  const auto answer = carrier_.ensure(*current, device, true, stop);  // W7, W8
  if (answer.state == ResourceClaimBridge::State::failed) return Outcome::ofWrite(answer.error);
  auto outcome = answer.state == ResourceClaimBridge::State::waiting ? Outcome::after(answer.delay) : Outcome::done();
  if (answer.state == ResourceClaimBridge::State::taken)
    return std::move(outcome).reports(ConditionUpdate::of(current->metadata, ConditionUpdate::As::resourceClaimNotReady,
                                                          reason::kResourceClaimConflict, answer.why));
  if (conditionResolved(*current, answer.state))
    return std::move(outcome).reports(
        ConditionUpdate::of(current->metadata, ConditionUpdate::As::resourceClaimReady, {}, {}));
  return outcome;
}

bool ClaimSync::conditionResolved(const cache::Claim& claim, ResourceClaimBridge::State carrier) const {
  const auto* carried = findCondition(claim.status.conditions, kResourceClaimReady);
  if (carried == nullptr || carried->status == "True") return false;
  if (carried->reason == reason::kNodeUnsuitable) {  // reported for a pod that is gone
    const auto pods = stores_.podsOfClaim(core::keyOf(claim.metadata));
    return std::none_of(pods.begin(), pods.end(),
                        [this](const auto& pod) { return isConsumer(stores_, *pod) && gated(*pod); });
  }
  if (carrier == ResourceClaimBridge::State::unwanted) return true;
  const bool carriedNow =
      carrier == ResourceClaimBridge::State::allocated || carrier == ResourceClaimBridge::State::reserved;
  return carriedNow && (carried->reason == reason::kRefused || carried->reason == reason::kResourceClaimConflict);
}

}  // namespace egpu::reconcile
