#include "controller/reconcile/claim/conditions.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "controller/base/printable.h"
#include "controller/base/text.h"
#include "controller/reconcile/class/class.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;

bool setCondition(std::vector<core::Condition>& conditions, core::Condition value, const std::string& now) {
  value.message = base::shortened(base::printable(value.message), kLongestMessage);  // parts are other people's words
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

const core::Condition* findCondition(const std::vector<core::Condition>& conditions, std::string_view type) {
  for (const auto& condition : conditions)
    if (condition.type == type) return &condition;
  return nullptr;
}

namespace {

void dropCondition(std::vector<core::Condition>& conditions, std::string_view type) {
  conditions.erase(std::remove_if(conditions.begin(), conditions.end(),
                                  [&](const auto& condition) { return condition.type == type; }),
                   conditions.end());
}

core::Condition condition(std::string_view type, bool good, std::string_view reason, std::string message,
                          int64_t generation) {
  core::Condition c;
  c.type = std::string(type);
  c.status = good ? "True" : "False";
  c.reason = std::string(reason);
  c.message = std::move(message);
  c.observedGeneration = generation;
  return c;
}

/// Empty, or which of the device's cards works no more, and why.
std::string unhealthy(const cache::Stores& stores, const cache::Gpu& device) {
  for (const auto& card : stores.cardsInTrouble())
    for (const auto& share : device.spec.cards)
      if (share.name == card->metadata.name)
        return "card " + share.name + " on node " + card->spec.card->nodeName + ": " + cache::troubleOf(*card).text();
  return {};
}

bool differs(const v1alpha::ElasticGPUClaimStatus& before, const v1alpha::ElasticGPUClaimStatus& after) {
  return !(before == after);
}

}  // namespace

base::Status ClaimStatus::pending(const cache::Claim& claim, std::string_view type, std::string_view reason,
                                  const std::string& message, std::stop_token stop) {
  auto after = claim.status;
  after.phase = phase::kPending;
  after.elasticGPUName.clear();
  after.nodeName.clear();
  after.className = classNameOf(stores_, claim);
  after.capacity.clear();
  const auto now = base::rfc3339(clock_.wall());
  const auto generation = claim.metadata.generation;
  const bool accepted = type != kAccepted;
  setCondition(after.conditions,
               condition(kAccepted, accepted, accepted ? std::string_view("Accepted") : reason, accepted ? "" : message,
                         generation),
               now);
  setCondition(after.conditions, condition(kBound, false, reason, message, generation), now);
  dropCondition(after.conditions, kHealthy);  // it was about a device that is no longer the claim's
  const auto* old = findCondition(claim.status.conditions, kBound);
  if (old == nullptr || old->reason != reason) {
    const bool usual =
        reason == v1alpha::keys::reason::kWaitingForConsumer || reason == v1alpha::keys::reason::kProvisioning;
    tell(claim, usual ? "Normal" : "Warning", reason, message);
  }
  return write(claim, after, stop);
}

base::Status ClaimStatus::bound(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  auto after = claim.status;
  after.phase = phase::kBound;
  after.elasticGPUName = device.metadata.name;
  after.nodeName = device.spec.nodeName;
  after.className = device.spec.className;
  after.capacity.clear();
  int64_t core = 0, memory = 0;
  for (const auto& card : device.spec.cards) {
    core += card.core;
    memory += card.memory;
  }
  if (core > 0) after.capacity["core"] = v1alpha::formatMilliCards(core);
  if (memory > 0) after.capacity["memory"] = v1alpha::formatBytes(memory);
  const auto now = base::rfc3339(clock_.wall());
  setCondition(after.conditions, condition(kAccepted, true, "Accepted", "", claim.metadata.generation), now);
  setCondition(after.conditions, condition(kBound, true, "Bound", "", claim.metadata.generation), now);
  const auto trouble = unhealthy(stores_, device);
  const auto* old = findCondition(claim.status.conditions, kHealthy);
  const bool wasWell = old == nullptr || old->status == "True";
  if (!trouble.empty() && wasWell) tell(claim, "Warning", v1alpha::keys::reason::kUnhealthy, trouble);
  if (!trouble.empty() || !wasWell)  // a claim whose cards never failed needs no word about it
    setCondition(after.conditions,
                 condition(kHealthy, trouble.empty(), trouble.empty() ? kHealthy : v1alpha::keys::reason::kUnhealthy,
                           trouble, claim.metadata.generation),
                 now);
  return write(claim, after, stop);
}

base::Status ClaimStatus::lost(const cache::Claim& claim, const std::string& message, std::stop_token stop) {
  auto after = claim.status;
  after.phase = phase::kLost;
  const auto now = base::rfc3339(clock_.wall());
  const auto reason = v1alpha::keys::reason::kCardGone;
  setCondition(after.conditions, condition(kBound, false, reason, message, claim.metadata.generation), now);
  if (claim.status.phase != phase::kLost) tell(claim, "Warning", reason, message);
  return write(claim, after, stop);
}

void ClaimStatus::moves(const cache::Claim& claim, const std::string& message) {
  tell(claim, "Warning", v1alpha::keys::reason::kNodeUnsuitable, message);
}

base::Status ClaimStatus::inUse(const cache::Claim& claim, const std::string& message, std::stop_token stop) {
  auto after = claim.status;
  const auto reason = v1alpha::keys::reason::kInUse;
  const auto* old = findCondition(claim.status.conditions, kBound);
  if (old == nullptr || old->reason != reason) tell(claim, "Normal", reason, message);
  setCondition(after.conditions,
               condition(kBound, old != nullptr && old->status == "True", reason, message, claim.metadata.generation),
               base::rfc3339(clock_.wall()));
  return write(claim, after, stop);
}

base::Status ClaimStatus::carried(const cache::Claim& claim, std::string_view reason, const std::string& message,
                                  std::stop_token stop) {
  const auto* old = findCondition(claim.status.conditions, kCarried);
  if (reason.empty() && (old == nullptr || old->status == "True")) return {};
  auto after = claim.status;
  const auto now = base::rfc3339(clock_.wall());
  setCondition(after.conditions,
               condition(kCarried, reason.empty(), reason.empty() ? std::string_view("Carried") : reason, message,
                         claim.metadata.generation),
               now);
  if (!reason.empty() && (old == nullptr || old->reason != reason)) tell(claim, "Warning", reason, message);
  return write(claim, after, stop);
}

base::Status ClaimStatus::write(const cache::Claim& claim, const v1alpha::ElasticGPUClaimStatus& after,
                                std::stop_token stop) {
  if (!differs(claim.status, after)) return {};
  const auto body = codec::patch::claimStatus(claim.metadata.uid, claim.metadata.resourceVersion, claim.status, after);
  auto result = writer_.patch(claim, body, "status", stop);
  return result.status();
}

void ClaimStatus::tell(const cache::Claim& claim, std::string_view type, std::string_view reason,
                       const std::string& message) {
  events_.event(kube::referenceTo(claim), type, reason, message);
}

}  // namespace egpu::reconcile
