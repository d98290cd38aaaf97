#include "controller/reconcile/claim/resolve.h"

#include <algorithm>
#include <iterator>

#include "api/v1alpha/keys.h"
#include "controller/base/timestamp.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/class/remote_class.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/priority/priority.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace reason = v1alpha::keys::reason;

namespace {
/// Claims that may hold part of one card; its CRD permits 16 more entries, for claims with admin access.
constexpr int64_t kLedgerEntries = 128;

/// Limits the request to the card that the claim names, and to the number of entries that a ledger holds.
void limit(const cache::Claim& claim, scheduler::Request& request) {
  if (isStatic(claim)) request.pinnedCards = {claim.spec.elasticGPUName};
  // The ledger would refuse one more claim whatever capacity is free, and the next decision would be the same.
  auto& max = request.maxClaimsPerCard;
  if (request.adminAccess) return;
  if (max == 0 || max > kLedgerEntries) max = kLedgerEntries;
}
}  // namespace

allocator::Allocator::QueueOrder queueOrderOf(const cache::Claim& claim, int64_t priority, base::Clock::Wall wall) {
  allocator::Allocator::QueueOrder order;
  order.priority = priority;
  order.now = std::chrono::duration_cast<std::chrono::seconds>(wall.time_since_epoch()).count();
  const auto created = base::parseRfc3339(claim.metadata.creationTimestamp);
  order.since = created ? base::unixSeconds(*created) : order.now;
  const auto* bound = findCondition(claim.status.conditions, kBound);
  const auto since =
      bound != nullptr && bound->status == "False" ? base::parseRfc3339(bound->lastTransitionTime) : std::nullopt;
  order.waitingSince = since ? base::unixSeconds(*since) : order.now;
  return order;
}

int64_t ClaimResolver::wantedSince(const cache::Claim& claim, int64_t now) const {
  const auto pod = context_.stores.firstPodByAge(
      core::keyOf(claim.metadata), [this](const core::Pod& each) { return isConsumer(context_.stores, each); });
  const auto created = pod ? base::parseRfc3339(pod->metadata.creationTimestamp) : std::nullopt;
  return created ? std::min(now, base::unixSeconds(*created)) : now;
}

ResolvedClaim ClaimResolver::resolve(const cache::Claim& claim) {
  ResolvedClaim asked;
  const auto cls = classOf(context_.stores, claim, &asked.message);
  if (cls) return resolve(claim, cls);
  asked.reason = std::string(reason::kClassNotFound);  // (C2)
  return asked;
}

ResolvedClaim ClaimResolver::resolve(const cache::Claim& claim, cache::Store<cache::Class>::Ptr cls) {
  ResolvedClaim asked;
  asked.cls = std::move(cls);
  const auto ready = context_.classes.readiness(*asked.cls);
  if (ready.later) {
    asked.later = true;
    return asked;
  }
  if (!ready.ready()) {  // (C3) or (C4)
    asked.isSpecValid = ready.reason != reason::kInvalidParameter;
    asked.reason = ready.reason;
    asked.message = "class " + asked.cls->metadata.name + ": " + ready.message;
    return asked;
  }
  auto made = schedulingRequestsOf(context_.stores, claim, *asked.cls);
  if (auto* refusal = std::get_if<scheduler::Refusal>(&made)) {  // (C4)
    asked.reason = refusal->reason;
    asked.message = (refusal->field.empty() ? "" : refusal->field + ": ") + refusal->message;
    return asked;
  }
  auto priority = priorityOf(context_.stores, claim);
  if (!priority.unknown.empty()) {  // (C4)
    asked.reason = std::string(reason::kPriorityClassNotFound);
    asked.message = "spec.priorityClassName: " + priority.unknown;
    return asked;
  }
  if (awaitQuotaChange(claim, asked)) return asked;
  asked.order = queueOrderOf(claim, priority.value, context_.clock.wall());
  if (asked.cls->bindingMode == "WaitForFirstConsumer")
    asked.order.waitingSince = std::max(asked.order.waitingSince, wantedSince(claim, asked.order.now));
  asked.preempts = priority.preempts && !claim.spec.adminAccess;
  auto& requests = std::get<std::vector<scheduler::Request>>(made);
  asked.request = std::move(requests.front());
  asked.otherwise.assign(std::make_move_iterator(requests.begin() + 1), std::make_move_iterator(requests.end()));
  return asked;
}

bool ClaimResolver::awaitQuotaChange(const cache::Claim& claim, ResolvedClaim& asked) {
  const auto* accepted = findCondition(claim.status.conditions, kAccepted);
  if (accepted == nullptr || accepted->status != "False" || accepted->reason != reason::kQuotaExceeded) return false;
  const auto& space = claim.metadata.namespace_;
  const auto queueKey = claimKey(core::keyOf(claim.metadata));
  // Quota changes after the second read requeue the claim; the second read sees earlier ones.
  context_.waiting.unschedulable.add(queueKey, ageOf(claim.metadata), priorityOf(context_.stores, claim).value,
                                     {{}, {}, space, context_.cluster.queries().refusingQuotas(space).value_or(0)});
  if (!context_.waiting.refusals.stillRefused(claim.metadata.uid, context_.cluster.queries().refusingQuotas(space))) {
    context_.waiting.unschedulable.remove(queueKey);
    return false;
  }
  asked.reason = accepted->reason;
  asked.message = accepted->message;
  return true;
}

ResolvedClaim ResolvedClaim::alternative(std::size_t which) const {
  if (which == 0) return *this;
  ResolvedClaim other;
  other.cls = cls;
  other.request = otherwise[which - 1];
  other.order = order;
  other.first = false;
  return other;
}

allocator::Allocator::SchedulingRequest ResolvedClaim::of(const cache::Claim& claim, std::string nodes) const {
  return {claim.metadata.uid,
          core::keyOf(claim.metadata).str(),
          request,
          std::move(nodes),
          cls->metadata.name,
          order,
          first};
}

ConditionUpdate ResolvedClaim::refusal(const cache::Claim& claim) const {
  return ConditionUpdate::of(
      claim.metadata, isSpecValid ? ConditionUpdate::As::notBound : ConditionUpdate::As::notAccepted, reason, message);
}

CapacityNeeds needsOf(const cache::Claim& claim, const ResolvedClaim& asked) {
  CapacityNeeds needs{{asked.of(claim)}};
  for (std::size_t i = 1; i < asked.alternatives(); ++i) needs.anyOf.push_back(asked.alternative(i).of(claim));
  return needs;
}

cache::Class classOfDevice(const cache::Gpu& device) {
  cache::Class cls;
  cls.metadata.name = device.spec.className;
  cls.provisioner = device.spec.provisioner;
  cls.parameters = device.spec.parameters;
  return cls;
}

std::variant<scheduler::Request, scheduler::Refusal> schedulingRequestOf(const cache::Stores& stores,
                                                                         const cache::Claim& claim,
                                                                         const cache::Class& cls) {
  if (auto refusal = accessRefusal(stores, cls, claim.metadata.namespace_)) return *std::move(refusal);
  if (auto refusal = adminAccessRefusal(stores, claim)) return *std::move(refusal);
  if (auto refusal = remoteRefusal(stores, claim, cls)) return *std::move(refusal);
  auto made = scheduler::makeRequest(claim, cls);
  if (auto* refusal = std::get_if<scheduler::Refusal>(&made))
    return withOtherClasses(std::move(*refusal), stores, claim);
  limit(claim, std::get<scheduler::Request>(made));
  return made;
}

std::variant<std::vector<scheduler::Request>, scheduler::Refusal> schedulingRequestsOf(const cache::Stores& stores,
                                                                                       const cache::Claim& claim,
                                                                                       const cache::Class& cls) {
  if (auto refusal = accessRefusal(stores, cls, claim.metadata.namespace_)) return *std::move(refusal);
  if (auto refusal = adminAccessRefusal(stores, claim)) return *std::move(refusal);
  if (auto refusal = remoteRefusal(stores, claim, cls)) return *std::move(refusal);
  auto made = scheduler::makeRequests(claim, cls);
  if (auto* refusal = std::get_if<scheduler::Refusal>(&made))
    return withOtherClasses(std::move(*refusal), stores, claim);
  for (auto& request : std::get<std::vector<scheduler::Request>>(made)) limit(claim, request);
  return made;
}

}  // namespace egpu::reconcile
