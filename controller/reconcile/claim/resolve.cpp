// Resolves a claim to its scheduling request: (C2), (C3), (C4).
#include <algorithm>
#include <iterator>

#include "api/v1alpha/keys.h"
#include "controller/base/timestamp.h"
#include "controller/reconcile/claim/claim.h"
#include "controller/reconcile/class/class_access.h"

namespace egpu::reconcile {

namespace reason = v1alpha::keys::reason;

namespace {
/// Claims that may hold part of one card; its CRD permits 16 more entries, for claims with admin access.
constexpr int64_t kLedgerEntries = 128;

/// Limits the request to the card that the claim names, and to the number of entries that a ledger holds.
void limit(const cache::Claim& claim, scheduler::Request& request) {
  if (ClaimSync::isStatic(claim)) request.pinnedCards = {claim.spec.elasticGPUName};
  // The ledger would refuse one more claim whatever capacity is free, and the next decision would be the same.
  auto& most = request.maxClaimsPerCard;
  if (request.adminAccess) return;
  if (most == 0 || most > kLedgerEntries) most = kLedgerEntries;
}
}  // namespace

cache::ClusterView::QueueOrder turnOf(const cache::Claim& claim, int64_t priority, base::Clock::Wall wall) {
  cache::ClusterView::QueueOrder turn;
  turn.priority = priority;
  turn.now = std::chrono::duration_cast<std::chrono::seconds>(wall.time_since_epoch()).count();
  const auto created = base::parseRfc3339(claim.metadata.creationTimestamp);
  turn.since = created ? base::unixSeconds(*created) : turn.now;
  const auto* bound = findCondition(claim.status.conditions, kBound);
  const auto since =
      bound != nullptr && bound->status == "False" ? base::parseRfc3339(bound->lastTransitionTime) : std::nullopt;
  turn.waitingSince = since ? base::unixSeconds(*since) : turn.now;
  return turn;
}

int64_t ClaimSync::wantedSince(const cache::Claim& claim, int64_t now) const {
  const auto pod = stores_.firstPodByAge(core::keyOf(claim.metadata),
                                         [this](const core::Pod& each) { return isConsumer(stores_, each); });
  const auto created = pod ? base::parseRfc3339(pod->metadata.creationTimestamp) : std::nullopt;
  return created ? std::min(now, base::unixSeconds(*created)) : now;
}

ResolvedClaim ClaimSync::ask(const cache::Claim& claim) {
  ResolvedClaim asked;
  const auto cls = classOf(stores_, claim, &asked.message);
  if (cls) return askOf(claim, cls);
  asked.reason = std::string(reason::kClassNotFound);  // (C2)
  return asked;
}

ResolvedClaim ClaimSync::askOf(const cache::Claim& claim, cache::Store<cache::Class>::Ptr cls) {
  ResolvedClaim asked;
  asked.cls = std::move(cls);
  const auto ready = classes_.readiness(*asked.cls);
  if (ready.later) {
    asked.later = true;
    return asked;
  }
  if (!ready.ready()) {  // (C3) or (C4)
    asked.specAccepted = ready.reason != reason::kInvalidParameter;
    asked.reason = ready.reason;
    asked.message = "class " + asked.cls->metadata.name + ": " + ready.message;
    return asked;
  }
  auto made = requestsOf(stores_, claim, *asked.cls);
  if (auto* refusal = std::get_if<scheduler::Refusal>(&made)) {  // (C4)
    asked.reason = refusal->reason;
    asked.message = (refusal->field.empty() ? "" : refusal->field + ": ") + refusal->message;
    return asked;
  }
  auto priority = priorityOf(stores_, claim);
  if (!priority.unknown.empty()) {  // (C4)
    asked.reason = std::string(reason::kPriorityClassNotFound);
    asked.message = "spec.priorityClassName: " + priority.unknown;
    return asked;
  }
  if (refusedByQuota(claim, asked)) return asked;
  asked.turn = turnOf(claim, priority.value, clock_.wall());
  if (asked.cls->bindingMode == "WaitForFirstConsumer")
    asked.turn.waitingSince = std::max(asked.turn.waitingSince, wantedSince(claim, asked.turn.now));
  asked.preempts = priority.preempts && !claim.spec.adminAccess;
  auto& requests = std::get<std::vector<scheduler::Request>>(made);
  asked.request = std::move(requests.front());
  asked.otherwise.assign(std::make_move_iterator(requests.begin() + 1), std::make_move_iterator(requests.end()));
  return asked;
}

ResolvedClaim ResolvedClaim::alternative(std::size_t which) const {
  if (which == 0) return *this;
  ResolvedClaim other;
  other.cls = cls;
  other.request = otherwise[which - 1];
  other.turn = turn;
  other.first = false;
  return other;
}

std::variant<scheduler::Request, scheduler::Refusal> ClaimSync::requestOf(const cache::Stores& stores,
                                                                          const cache::Claim& claim,
                                                                          const cache::Class& cls) {
  if (auto refusal = accessRefusal(stores, cls, claim.metadata.namespace_)) return *std::move(refusal);
  if (auto refusal = observingRefusal(stores, claim)) return *std::move(refusal);
  auto made = scheduler::makeRequest(claim, cls);
  if (auto* refusal = std::get_if<scheduler::Refusal>(&made))
    return withOtherClasses(std::move(*refusal), stores, claim);
  limit(claim, std::get<scheduler::Request>(made));
  return made;
}

std::variant<std::vector<scheduler::Request>, scheduler::Refusal> ClaimSync::requestsOf(const cache::Stores& stores,
                                                                                        const cache::Claim& claim,
                                                                                        const cache::Class& cls) {
  if (auto refusal = accessRefusal(stores, cls, claim.metadata.namespace_)) return *std::move(refusal);
  if (auto refusal = observingRefusal(stores, claim)) return *std::move(refusal);
  auto made = scheduler::makeRequests(claim, cls);
  if (auto* refusal = std::get_if<scheduler::Refusal>(&made))
    return withOtherClasses(std::move(*refusal), stores, claim);
  for (auto& request : std::get<std::vector<scheduler::Request>>(made)) limit(claim, request);
  return made;
}

base::Result<bool> ClaimSync::classExistsNow(const cache::Claim& claim, std::stop_token stop) {
  const auto& name = claim.spec.effectiveClass();
  if (!name.empty()) {
    const auto now = writer_.read<cache::Class>({"", name}, {}, stop);
    if (!now.ok() && now.status().code() != base::Code::notFound) return now.status();
  } else {
    const auto all = writer_.client().listAll<cache::Class>({}, stop);
    if (!all.ok()) return all.status();
    for (const auto& cls : *all) stores_.observed(cls);
  }
  return classOf(stores_, claim, nullptr) != nullptr;
}

}  // namespace egpu::reconcile
