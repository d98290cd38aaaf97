#include "controller/reconcile/priority/preemptor.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "controller/base/timestamp.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/priority/priority.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {
constexpr std::size_t kNominationsAtOnce = 8;  ///< written by one step

/// True if the claims have these nominations by now, perhaps with more victims.
bool areKept(const std::vector<ClaimPtr>& claims, const std::vector<v1alpha::Nomination>& nominations) {
  return std::equal(claims.begin(), claims.end(), nominations.begin(), nominations.end(),
                    [](const ClaimPtr& claim, const v1alpha::Nomination& now) {
                      const auto& before = claim->status.nominated;
                      return before && before->nodeName == now.nodeName && before->cards == now.cards &&
                             std::all_of(now.victims.begin(), now.victims.end(), [&before](const std::string& victim) {
                               return std::find(before->victims.begin(), before->victims.end(), victim) !=
                                      before->victims.end();
                             });
                    });
}
}  // namespace

void useGroupOrder(std::vector<allocator::Allocator::SchedulingRequest>& asks) {
  auto order = asks.front().order;
  for (const auto& ask : asks) {
    order.priority = std::min(order.priority, ask.order.priority);
    order.since = std::min(order.since, ask.order.since);
  }
  for (auto& ask : asks) {
    ask.order.priority = order.priority;
    ask.order.since = order.since;
  }
}

std::optional<Outcome> Preemptor::nominateVictimsForGroup(const std::string& what, const std::string& queueKey,
                                                          AskedTogether asked, std::stop_token stop) {
  if (const auto rest = searchDelay(*asked.claims.front(), asked.asks.front(), queueKey))
    return rest->count() > 0 ? std::optional(Outcome::after(*rest)) : std::nullopt;
  const auto planning = preemption_.tryLockPlanning(asked.claims.front()->metadata.uid);
  if (!planning) return Outcome::after(context_.timeouts.planInterval);
  for (const auto& each : asked.claims)
    if (preemption_.planQueue().done(each->metadata.uid)) context_.enqueue(plansKey());
  for (auto& each : asked.claims) {
    auto current =
        context_.stores.claims.get(core::keyOf(each->metadata));  // with the nomination that the last plan wrote
    if (!current || current->metadata.uid != each->metadata.uid || current->metadata.deleting())
      return Outcome::requeueNow();
    each = std::move(current);
  }
  useGroupOrder(asked.asks);
  auto [nominations, begin] = preemption_.unwritten(asked);
  const bool isNew = nominations.empty();
  if (isNew) nominations = preemption_.planForGroup(asked, stop);
  if (nominations.empty()) return std::nullopt;
  if (std::all_of(nominations.begin(), nominations.end(),
                  [](const auto& nomination) { return nomination.victims.empty(); }))
    return Outcome::after(context_.timeouts.planInterval);  // the last victim was released just now
  if (isNew && isReportedRecently(asked.claims, nominations))
    return Outcome::after(context_.timeouts.preemptionRetryBackoff);
  // V1: first the speaker's nomination, as the others keep theirs only while it has one. No victim is evicted before
  // all are written. The step that searches a large plan writes the first one alone, so that no step occupies its
  // worker for long.
  const bool isLarge = asked.claims.size() > Writer::kFewReads;
  const bool onlyFirst = isNew && isLarge && areKept(asked.claims, nominations);  // its message names the victims left
  const std::size_t max = isNew && nominations.size() > kNominationsAtOnce ? 1 : kNominationsAtOnce;
  const auto began = context_.clock.now();
  for (std::size_t i = begin; i < nominations.size(); ++i) {
    if (i == begin + max || (i > begin && context_.clock.now() - began >= context_.timeouts.claimStepTimeout)) {
      preemption_.leaveUnwritten(asked, std::move(nominations), i);
      return Outcome::requeueNow();
    }
    const auto& each = *asked.claims[i];
    auto update = notBound(each, reason::kPreempting,
                           i == 0 ? what + " " + preemption_.text(nominations, each.metadata.namespace_)
                                  : "capacity on node " + nominations[i].nodeName + " is reserved for it; claim " +
                                        asked.claims.front()->metadata.name + " lists the victims for " + what);
    update.nominated = nominations[i];
    const auto written = context_.status.report({std::move(update)}, stop);
    if (!written.ok()) return Outcome::nextState(written);
    if (onlyFirst) return Outcome::after(context_.timeouts.preemptionRetryBackoff);
  }
  preemption_.shared().forget(SharedPlans::keyOf(*asked.claims.front()));
  for (const auto& nomination : nominations) requeueVictims(nomination);
  return Outcome::after(context_.timeouts.preemptionRetryBackoff);
}

void Preemptor::requeueVictims(const v1alpha::Nomination& nomination) {
  for (const auto& name : nomination.victims)
    if (const auto device = context_.stores.devices.get({"", name}); device && device->spec.claimRef)
      context_.enqueue(claimKey({device->spec.claimRef->namespace_, device->spec.claimRef->name}));
}

bool Preemptor::isReportedRecently(const std::vector<ClaimPtr>& claims,
                                   const std::vector<v1alpha::Nomination>& nominations) {
  if (claims.size() <= Writer::kFewReads || !areKept(claims, nominations)) return false;
  for (const auto& nomination : nominations)
    if (preemption_.heldUpFor(nomination.victims).count() > 0) return false;
  return !context_.waiting.unschedulable.mayExplain(claims.front()->metadata.uid);
}

milliseconds Preemptor::awaitSearch(const cache::Claim& claim, const std::string& queueKey) {
  const QueueOrder order{-priorityOf(context_.stores, claim).value, ageOf(claim.metadata)};
  const auto wait = preemption_.delayForRateLimit(order, queueKey);
  if (wait.count() > 0) context_.enqueue(plansKey());
  return wait;
}

Outcome Preemptor::startNextSearch() {
  const auto next = preemption_.nextPlan();
  if (next.queueKey) context_.enqueue(*next.queueKey);
  return next.again ? Outcome::after(*next.again) : Outcome::done();
}

milliseconds Preemptor::waitForPreemptor(const cache::Claim& claim,
                                         const allocator::Allocator::SchedulingRequest& ask) const {
  const auto* bound = findCondition(claim.status.conditions, kBound);
  if (bound == nullptr || claim.status.phase != phase::kPending) return {};
  if (bound->reason != reason::kPreempted && bound->reason != reason::kMoved) return {};
  const std::chrono::seconds age(base::unixSeconds(base::rfc3339(context_.clock.wall())) -
                                 base::unixSeconds(bound->lastTransitionTime));
  if (age.count() < 0) return {};  // another controller with another clock wrote it
  const auto left = context_.timeouts.nominationReportDelay - age;
  return left.count() > 0 && context_.cluster.queries().hasNominationBefore(ask) ? left : milliseconds(0);
}

std::optional<milliseconds> Preemptor::searchDelay(const cache::Claim& claim,
                                                   const allocator::Allocator::SchedulingRequest& ask,
                                                   const std::string& queueKey) {
  const auto rest = preemption_.searchBackoff(claim.metadata.uid);
  if (rest.count() == 0 || claim.status.nominated) return std::nullopt;
  const auto* bound = findCondition(claim.status.conditions, kBound);
  const bool reported = bound != nullptr &&
                        (bound->reason == reason::kNoFit || bound->reason == reason::kQuotaExceeded) &&
                        claim.status.phase == phase::kPending;
  if (!reported && waitForPreemptor(claim, ask).count() == 0)
    return milliseconds(0);  // the reporting code respects the backoff
  const auto order = awaitSearch(claim, queueKey);
  return order.count() > 0 ? order : rest;
}

std::optional<Outcome> Preemptor::nominateVictims(const cache::Claim& claim, const ResolvedClaim& asked,
                                                  const scheduler::NodePredicate& suits, std::stop_token stop) {
  if (!asked.preempts) return std::nullopt;
  const auto queueKey = claimKey(core::keyOf(claim.metadata));
  if (const auto rest = searchDelay(claim, asked.of(claim), queueKey))
    return rest->count() > 0 ? std::optional(Outcome::after(*rest)) : std::nullopt;
  const auto planning = preemption_.tryLockPlanning(claim.metadata.uid);
  if (!planning) return Outcome::after(context_.timeouts.planInterval);
  if (preemption_.planQueue().done(claim.metadata.uid)) context_.enqueue(plansKey());
  const auto current =
      context_.stores.claims.get(core::keyOf(claim.metadata));  // its status has the nomination of the last plan
  if (!current || current->metadata.uid != claim.metadata.uid) return Outcome::done();
  const auto nomination = preemption_.planFor(current, asked.of(*current), suits, stop);
  if (!nomination) return std::nullopt;
  if (nomination->victims.empty())
    return Outcome::after(context_.timeouts.planInterval);  // the last victim left just now
  auto update =
      notBound(*current, reason::kPreempting, preemption_.text({&*nomination, 1}, current->metadata.namespace_));
  update.nominated = nomination;
  const auto written = context_.status.report({std::move(update)}, stop);  // V1
  if (!written.ok()) return Outcome::nextState(written);
  return Outcome::after(context_.timeouts.preemptionRetryBackoff);
}

std::vector<ClaimPtr> Preemptor::preemptionGroup(const ClaimPtr& preemptor) const {
  if (!inGang(context_.stores, *preemptor))
    return isDecidedByPod(context_.stores, *preemptor) ? claimsOfOnlyPod(preemptor) : std::vector{preemptor};
  const auto gang = gangOf(context_.stores, *preemptor);
  if (!gang) return {};
  auto members = gangs_.openOf(*preemptor, *gang);
  return members.lacks.empty() && !members.memberLeaves ? std::move(members.open) : std::vector<ClaimPtr>();
}

std::vector<ClaimPtr> Preemptor::claimsOfOnlyPod(const ClaimPtr& claim) const {
  auto pods = context_.stores.podsOfClaim(core::keyOf(claim->metadata));
  std::erase_if(pods, [this](const auto& pod) { return !isConsumer(context_.stores, *pod); });
  if (pods.empty()) return {};
  if (pods.size() != 1) return {claim};
  return openClaimsOf(context_.stores, *pods.front()).value_or(std::vector<ClaimPtr>());
}

}  // namespace egpu::reconcile
