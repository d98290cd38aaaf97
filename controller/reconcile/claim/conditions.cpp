#include "controller/reconcile/claim/conditions.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "api/v1alpha/size.h"
#include "controller/base/printable.h"
#include "controller/base/text.h"
#include "controller/reconcile/claim/access_loss.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/claim/bypass.h"
#include "controller/reconcile/class/class.h"
#include "controller/reconcile/priority/priority.h"
#include "controller/reconcile/resize/whole_cards.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;

bool setCondition(std::vector<core::Condition>& conditions, core::Condition value, const std::string& now) {
  // Messages may quote plugins and other components.
  value.message = base::shortened(base::printable(value.message), kMaxMessageLength);
  for (auto& condition : conditions) {
    if (condition.type != value.type) continue;
    value.lastTransitionTime = condition.status == value.status ? condition.lastTransitionTime : now;
    if (condition == value) return false;
    condition = std::move(value);
    return true;
  }
  value.lastTransitionTime = now;
  conditions.push_back(std::move(value));
  return true;
}

bool setModelsExist(std::vector<core::Condition>& conditions, const cache::CardModels& cards,
                    const std::vector<std::string>& models, std::string_view field, int64_t generation,
                    const std::string& now) {
  if (models.empty())
    return std::erase_if(conditions, [](const auto& condition) { return condition.type == kModelsExist; }) > 0;
  const auto missing = cards.missingText(models);
  core::Condition condition;
  condition.type = std::string(kModelsExist);
  condition.status = missing.empty() ? "True" : "False";
  condition.reason = missing.empty() ? "Found" : "NoSuchModel";
  if (!missing.empty()) condition.message = std::string(field) + ": " + missing;
  condition.observedGeneration = generation;
  return setCondition(conditions, std::move(condition), now);
}

const core::Condition* findCondition(const std::vector<core::Condition>& conditions, std::string_view type) {
  for (const auto& condition : conditions)
    if (condition.type == type) return &condition;
  return nullptr;
}

namespace {

/// Returns the message of the event that a claim is Bound.
std::string boundText(const v1alpha::ElasticGPUClaimStatus& status) {
  std::string text = "has device " + status.elasticGPUName;
  if (!status.nodeName.empty()) text += " on node " + status.nodeName;
  for (const auto& [name, amount] : status.capacity) text += ", " + name + ' ' + amount;
  return text;
}

void dropCondition(std::vector<core::Condition>& conditions, std::string_view type) {
  conditions.erase(std::remove_if(conditions.begin(), conditions.end(),
                                  [&](const auto& condition) { return condition.type == type; }),
                   conditions.end());
}

core::Condition condition(std::string_view type, bool good, std::string_view why, std::string message,
                          int64_t generation) {
  core::Condition c;
  c.type = std::string(type);
  c.status = good ? "True" : "False";
  c.reason = std::string(why);
  c.message = std::move(message);
  c.observedGeneration = generation;
  return c;
}

/// First of the device's cards that fails, is tainted or cannot hold its shares, and why; in that order.
cache::Trouble unhealthy(const cache::Stores& stores, const cache::Gpu& device) {
  cache::Trouble tainted, tooSmall;
  if (const auto taint = stores.taintOn(device.spec.nodeName, device.metadata.name))
    tainted = {taint.reason, "device " + device.metadata.name + ": " + taint.text()};
  for (const auto& share : device.spec.cards) {
    const auto card = stores.cards.get({"", share.name});
    if (!card) continue;
    const auto where = "card " + share.name + " on node " + card->spec.card->nodeName + ": ";
    if (const auto ill = cache::troubleOf(*card)) return {std::string(reason::kUnhealthy), where + ill.text()};
    if (const auto taint = stores.troubleOf(*card); taint && !tainted) tainted = {taint.reason, where + taint.text()};
    const int64_t missing = share.memory > 0 && !tooSmall ? overdrawnMemory(stores, *card) : 0;
    if (missing > 0) tooSmall = {std::string(reason::kCardTooSmall), overdrawnText(*card, missing)};
  }
  return tainted ? tainted : tooSmall;
}

/// True if the claim has a Bound device. A request to leave it may still be withdrawn.
bool hasBoundDevice(const cache::Stores& stores, const cache::Claim& claim) {
  const auto devices = stores.devicesOfClaim(claim.metadata.uid);
  return std::any_of(devices.begin(), devices.end(),
                     [](const auto& device) { return device->status.phase == phase::kBound; });
}

bool differs(const v1alpha::ElasticGPUClaimStatus& before, const v1alpha::ElasticGPUClaimStatus& after) {
  return !(before == after);
}

}  // namespace

bool mayResize(const cache::Claim& claim, const cache::Gpu& device) {
  return v1alpha::isResizable(device) && device.metadata.name == deviceNameFor(claim) && !claim.spec.adminAccess;
}

base::Status ClaimStatus::report(const std::vector<ConditionUpdate>& all, std::stop_token stop) {
  base::Status failed;
  for (auto first = all.begin(); first != all.end();) {
    const auto last = std::find_if(first, all.end(), [&](const auto& update) { return update.uid != first->uid; });
    auto status = reportOne({first, last}, stop);
    const bool worse = failed.ok() || failed.code() == base::Code::conflict;
    if (!status.ok() && worse) failed = std::move(status);
    first = last;
  }
  return failed;
}

base::Status ClaimStatus::reportOne(std::span<const ConditionUpdate> all, std::stop_token stop) {
  const auto claim = stores_.claims.get(all.front().claim);
  if (!claim || claim->metadata.uid != all.front().uid) return {};
  auto after = claim->status;
  base::Status changed;
  for (const auto& update : all) {
    // An event about a released node stays true; all other updates must match the claim's version.
    if (update.as == ConditionUpdate::As::moves || update.resourceVersion == claim->metadata.resourceVersion)
      put(*claim, update, after);
    else
      changed = {base::Code::conflict, "the claim changed"};
  }
  auto status = write(*claim, after, stop);
  if (status.code() == base::Code::notFound) return {};
  return status.ok() ? changed : status;
}

void ClaimStatus::put(const cache::Claim& claim, const ConditionUpdate& update, Status& after) {
  switch (update.as) {
    case ConditionUpdate::As::notAccepted:
    case ConditionUpdate::As::notBound:
      return putPending(claim, update, after);
    case ConditionUpdate::As::resourceClaimNotReady:
    case ConditionUpdate::As::resourceClaimReady:
      return putResourceClaimReady(claim, update, after);
    case ConditionUpdate::As::lost:
      return setLost(claim, update, after);
    case ConditionUpdate::As::inUse:
      return putInUse(claim, update, after);
    case ConditionUpdate::As::preempted:
      return putPreempted(claim, update, after);
    case ConditionUpdate::As::notResized:
      return putNotResized(claim, update, after);
    case ConditionUpdate::As::moves:
      return sendEvent(claim, "Warning", update.reason, update.message);
    case ConditionUpdate::As::uses:
      after.usage = update.usage;
      return;
  }
}

void ClaimStatus::putPending(const cache::Claim& claim, const ConditionUpdate& update, Status& after) {
  after.phase = phase::kPending;
  after.elasticGPUName.clear();
  after.nodeName.clear();
  after.className = classNameOf(stores_, claim);
  after.capacity.clear();
  // With a Bound device, status.requests shows the device's requests, in case it stays (V4).
  if (!hasBoundDevice(stores_, claim)) after.requests.clear();
  after.alternative.clear();
  after.isolation.reset();
  after.usage.reset();
  after.priority = priorityOf(stores_, claim).value;
  after.nominated = update.nominated;
  const auto now = base::rfc3339(clock_.wall());
  const auto generation = claim.metadata.generation;
  const bool accepted = update.as != ConditionUpdate::As::notAccepted;
  setCondition(
      after.conditions,
      condition(kAccepted, accepted, accepted ? "Accepted" : update.reason, accepted ? "" : update.message, generation),
      now);
  setCondition(after.conditions, condition(kBound, false, update.reason, update.message, generation), now);
  for (const auto about :
       {kHealthy, kResized, kIsolationBypassed, kAccessLost})  // they described a device that it no longer has
    dropCondition(after.conditions, about);
  const auto* old = findCondition(claim.status.conditions, kBound);
  if (old == nullptr || old->reason != update.reason) {
    const bool usual = update.reason == reason::kWaitingForConsumer || update.reason == reason::kProvisioning ||
                       update.reason == reason::kPreempting || update.reason == reason::kWaitingForGang ||
                       update.reason == reason::kWaitingForGates;
    sendEvent(claim, usual ? "Normal" : "Warning", update.reason, update.message);
  }
}

base::Status ClaimStatus::writeBound(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  auto after = claim.status;
  after.phase = phase::kBound;
  after.elasticGPUName = device.metadata.name;
  after.nodeName = device.spec.nodeName;
  after.className = device.spec.className;
  after.alternative = device.spec.alternative;
  after.priority = priorityOf(stores_, claim).value;
  after.nominated.reset();
  dropCondition(after.conditions, kPreempted);
  putInForce(claim, device, after);
  const auto now = base::rfc3339(clock_.wall());
  setCondition(after.conditions, condition(kAccepted, true, "Accepted", "", claim.metadata.generation), now);
  setCondition(after.conditions, condition(kBound, true, "Bound", "", claim.metadata.generation), now);
  if (auto written = putHealth(claim, device, after, stop); !written.ok()) return written;
  if (auto written = write(claim, after, stop); !written.ok()) return written;
  if (claim.status.phase != phase::kBound) sendEvent(claim, "Normal", kBound, boundText(after));
  return {};
}

base::Result<bool> ClaimStatus::updateHealth(const cache::Claim& claim, const cache::Gpu& device,
                                             std::stop_token stop) {
  auto after = claim.status;
  if (auto written = putHealth(claim, device, after, stop); !written.ok()) return written;
  const auto now = stores_.devices.get({"", device.metadata.name});
  const bool onDevice = !now || now->metadata.resourceVersion != device.metadata.resourceVersion;
  const bool onClaim = differs(claim.status, after);
  if (auto written = write(claim, after, stop); !written.ok()) return written;
  return onDevice || onClaim;
}

base::Status ClaimStatus::putHealth(const cache::Claim& claim, const cache::Gpu& device, Status& after,
                                    std::stop_token stop) {
  const auto trouble = unhealthy(stores_, device);
  const auto reportsIllness = [](const std::vector<core::Condition>& conditions) {
    const auto* shown = findCondition(conditions, kHealthy);
    return shown != nullptr && shown->status != "True";
  };
  const auto health = [&](int64_t generation) {
    return condition(kHealthy, !trouble, trouble ? trouble.reason : kHealthy, trouble.message, generation);
  };
  const auto now = base::rfc3339(clock_.wall());
  if (trouble || reportsIllness(device.status.conditions)) {
    auto status = device.status;
    if (setCondition(status.conditions, health(device.metadata.generation), now)) {
      const auto& meta = device.metadata;
      const auto body = codec::patch::gpuStatus(meta.uid, meta.resourceVersion, device.status, status);
      if (const auto written = writer_.patch(device, body, "status", stop); !written.ok()) return written.status();
    }
  }
  const bool wasIll = reportsIllness(claim.status.conditions);
  if (trouble && !wasIll) sendEvent(claim, "Warning", trouble.reason, trouble.message);
  if (trouble || wasIll) setCondition(after.conditions, health(claim.metadata.generation), now);
  putBypass(claim, device, after);
  putAccessLoss(claim, device, after);
  return {};
}

void ClaimStatus::putBypass(const cache::Claim& claim, const cache::Gpu& device, Status& after) {
  const auto bypass = bypassOf(stores_, device);
  if (!bypass && findCondition(claim.status.conditions, kIsolationBypassed) == nullptr) return;
  // The agent of the node sends the event.
  setCondition(after.conditions,
               condition(kIsolationBypassed, bypass.has_value(), bypass ? reason::kIsolationBypassed : "Ended",
                         bypass ? bypass->message : "", claim.metadata.generation),
               base::rfc3339(clock_.wall()));
}

void ClaimStatus::putAccessLoss(const cache::Claim& claim, const cache::Gpu& device, Status& after) {
  const auto loss = accessLossOf(stores_, claim, device);
  if (!loss && findCondition(claim.status.conditions, kAccessLost) == nullptr) return;
  // The agent of the node sends the event.
  setCondition(after.conditions,
               condition(kAccessLost, loss.has_value(), loss ? std::string_view(loss->reason) : "Ended",
                         loss ? loss->message : "", claim.metadata.generation),
               base::rfc3339(clock_.wall()));
}

void ClaimStatus::putInForce(const cache::Claim& claim, const cache::Gpu& device, Status& after) {
  after.capacity.clear();
  int64_t core = 0, memory = 0;
  for (const auto& card : v1alpha::cardsInForce(device)) {
    core += card.core;
    memory += card.memory;
  }
  if (core > 0) after.capacity["core"] = v1alpha::formatMilliCards(core);
  if (memory > 0) after.capacity["memory"] = v1alpha::formatBytes(memory);
  for (const auto& [key, amount] : device.spec.capacity)
    if (const auto resource = key.substr(key.rfind('/') + 1); resource.starts_with(v1alpha::keys::kMigPrefix))
      after.capacity[resource] = amount;
  after.isolation = device.status.isolation;
  const auto& was = claim.status.requests;
  if (mayResize(claim, device)) {
    // Until status.requests is set, the API server rejects changes of the requests in the spec.
    after.requests = device.status.inForce ? device.status.inForce->requests : was.empty() ? claim.spec.requests : was;
  } else if (was == claim.spec.requests) {
    after.requests.clear();
  }
  const bool quiet = after.requests.empty() || (after.requests == claim.spec.requests && !v1alpha::isResizing(device));
  const bool resized = quiet && !was.empty() && was != after.requests && !after.requests.empty();
  if (resized)
    sendEvent(claim, "Normal", kResized,
              "has core " + v1alpha::formatMilliCards(core) + ", memory " + v1alpha::formatBytes(memory));
  const bool had = claim.status.phase == phase::kBound && claim.status.elasticGPUName == device.metadata.name &&
                   !claim.status.capacity.empty();
  const bool followed = had && !resized && claim.status.capacity != after.capacity;
  if (followed)
    sendEvent(claim, "Normal", reason::kCardMemoryChanged,
              "the usable memory of its cards changed: it has core " + v1alpha::formatMilliCards(core) + ", memory " +
                  v1alpha::formatBytes(memory) + "; containers that run keep what they began with");
  const auto* old = findCondition(claim.status.conditions, kResized);
  if (resized || (quiet && old != nullptr && old->status != "True"))  // otherwise no condition is needed
    setCondition(after.conditions, condition(kResized, true, kResized, "", claim.metadata.generation),
                 base::rfc3339(clock_.wall()));
}

void ClaimStatus::putNotResized(const cache::Claim& claim, const ConditionUpdate& update, Status& after) {
  const auto* old = findCondition(claim.status.conditions, kResized);
  if (old == nullptr || old->reason != update.reason)
    sendEvent(claim, update.reason == reason::kResizing ? "Normal" : "Warning", update.reason, update.message);
  setCondition(after.conditions, condition(kResized, false, update.reason, update.message, claim.metadata.generation),
               base::rfc3339(clock_.wall()));
}

void ClaimStatus::setLost(const cache::Claim& claim, const ConditionUpdate& update, Status& after) {
  after.phase = phase::kLost;
  after.usage.reset();
  const auto now = base::rfc3339(clock_.wall());
  setCondition(after.conditions, condition(kBound, false, update.reason, update.message, claim.metadata.generation),
               now);
  if (claim.status.phase != phase::kLost) sendEvent(claim, "Warning", update.reason, update.message);
}

void ClaimStatus::putPreempted(const cache::Claim& claim, const ConditionUpdate& update, Status& after) {
  putPending(claim, update, after);
  // From now on Bound reports why the claim is pending, and Preempted reports which claim got its capacity.
  setCondition(after.conditions, condition(kPreempted, true, update.reason, update.message, claim.metadata.generation),
               base::rfc3339(clock_.wall()));
}

void ClaimStatus::putInUse(const cache::Claim& claim, const ConditionUpdate& update, Status& after) {
  const auto* old = findCondition(claim.status.conditions, kBound);
  if (old == nullptr || old->reason != update.reason) sendEvent(claim, "Normal", update.reason, update.message);
  const bool stillBound = old != nullptr && old->status == "True";
  setCondition(after.conditions,
               condition(kBound, stillBound, update.reason, update.message, claim.metadata.generation),
               base::rfc3339(clock_.wall()));
}

void ClaimStatus::putResourceClaimReady(const cache::Claim& claim, const ConditionUpdate& update, Status& after) {
  const bool good = update.as == ConditionUpdate::As::resourceClaimReady;
  const auto* old = findCondition(claim.status.conditions, kResourceClaimReady);
  // A claim without an obstacle so far gets no condition.
  if (good && (old == nullptr || old->status == "True")) return;
  setCondition(after.conditions,
               condition(kResourceClaimReady, good, good ? "ResourceClaimReady" : update.reason, update.message,
                         claim.metadata.generation),
               base::rfc3339(clock_.wall()));
  if (!good && (old == nullptr || old->reason != update.reason))
    sendEvent(claim, "Warning", update.reason, update.message);
}

base::Status ClaimStatus::write(const cache::Claim& claim, const Status& after, std::stop_token stop) {
  if (!differs(claim.status, after)) return {};
  const auto body = codec::patch::claimStatus(claim.metadata.uid, claim.metadata.resourceVersion, claim.status, after);
  auto result = writer_.patch(claim, body, "status", stop);
  return result.status();
}

void ClaimStatus::sendEvent(const cache::Claim& claim, std::string_view type, std::string_view reason,
                            const std::string& message) {
  events_.event(kube::referenceTo(claim), type, reason, message);
}

}  // namespace egpu::reconcile
