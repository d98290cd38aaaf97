#include "controller/reconcile/placement/placement.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "controller/plugin/call.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/priority/priority.h"
#include "controller/reconcile/queue_key.h"
#include "controller/scheduler/first_available.h"

namespace egpu::reconcile {

namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

std::variant<scheduler::Decision, Outcome> ClaimPlacement::decideAsPreferred(const cache::Claim& claim,
                                                                             const ResolvedClaim& asked,
                                                                             const scheduler::NodePredicate& suits,
                                                                             const std::string& nodes) {
  const auto& uid = claim.metadata.uid;
  if (!context_.provisioning.prefers(asked.cls->provisioner)) return decide(claim, asked, suits, nodes);
  if (const auto rest = context_.waiting.nodes.untilNextChoice(uid); rest.count() > 0) return Outcome::after(rest);
  const auto candidates = context_.cluster.candidates(
      asked.of(claim),
      [&](std::string_view node) { return !context_.waiting.nodes.wasRefusedOn(uid, node) && (!suits || suits(node)); },
      plugin::kMaxCandidates);
  if (candidates.empty()) return decide(claim, asked, suits, nodes);
  const auto answer = context_.provisioning.prefer(*asked.cls, core::keyOf(claim.metadata), candidates);
  if (!answer) return Outcome::after(context_.timeouts.busyPluginInterval);
  if (answer->reply.outcome != plugin::ReplyCode::ok) return decide(claim, asked, suits, nodes);
  auto ask = asked.of(claim);
  ask.first = false;  // no reservation is made from these nodes only
  for (const auto& node : preferredNodes(claim, asked, candidates, *answer)) {
    ask.request.pinnedNode = node;
    if (auto decision = context_.cluster.decideAndAssume(ask, suits); decision.fits) return decision;
    if (context_.cluster.isOutdated(ask.order)) return Outcome::requeueNow();
  }
  // All are vetoed, or were taken meanwhile: the next attempt has other candidates.
  context_.waiting.nodes.choiceFailed(uid);
  auto outcome = Outcome::after(context_.waiting.nodes.untilNextChoice(uid));
  if (const auto why = context_.waiting.nodes.text(uid); !why.empty())
    outcome.updates.push_back(notBound(claim, reason::kNodeUnsuitable, why));
  return outcome;
}

std::vector<std::string> ClaimPlacement::preferredNodes(const cache::Claim& claim, const ResolvedClaim& asked,
                                                        const std::vector<scheduler::Decision>& candidates,
                                                        const plugin::PreferReply& answer) {
  std::vector<std::string> nodes;
  std::vector<bool> isOrdered(candidates.size(), false);
  for (const auto& veto : answer.vetoes) {
    isOrdered[veto.candidate] = true;
    context_.waiting.nodes.reject(claim.metadata.uid, candidates[veto.candidate].node,
                                  asked.cls->provisioner + (veto.why.empty() ? " vetoed it" : ": " + veto.why),
                                  context_.timeouts.nodeVetoBackoff);
  }
  for (const auto candidate : answer.order) {
    isOrdered[candidate] = true;
    nodes.push_back(candidates[candidate].node);
  }
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (!isOrdered[i]) nodes.push_back(candidates[i].node);
  return nodes;
}

std::variant<std::vector<scheduler::Decision>, Outcome> ClaimPlacement::decideFirst(
    const cache::Claim& claim, const ResolvedClaim& asked, const scheduler::NodePredicate& suits,
    const std::string& nodes) {
  std::optional<Outcome> later;
  auto tried = scheduler::decideFirst(asked.alternatives(), [&](std::size_t which) {
    auto decided = which == 0 ? decideAsPreferred(claim, asked, suits, nodes)
                              : decideAsPreferred(claim, asked.alternative(which), suits, nodes);
    std::optional<scheduler::Decision> decision;
    if (auto* outcome = std::get_if<Outcome>(&decided))
      later = std::move(*outcome);
    else
      decision = std::get<scheduler::Decision>(std::move(decided));
    return decision;
  });
  if (later) return *std::move(later);
  return tried;
}

Outcome ClaimPlacement::noneFits(const cache::Claim& claim, const ResolvedClaim& asked,
                                 const std::vector<scheduler::Decision>& tried, const scheduler::NodePredicate& suits,
                                 const std::string& nodes, std::stop_token stop) {
  const auto overQuotas = [](const auto& decision) { return decision.excess.has_value(); };
  if (const auto& excess = tried.front().excess; !excess || excess->releasesMayHelp())
    if (auto making = parts_.preemptor.nominateVictims(claim, asked, suits, stop)) return *std::move(making);
  if (std::all_of(tried.begin(), tried.end(), overQuotas)) {
    // A quota that lets the claim wait is reported rather than one that refuses it.
    const auto waits = std::find_if(tried.begin(), tried.end(), [](const auto& each) { return !each.excess->refuse; });
    auto outcome = parts_.report.overQuota(claim, waits == tried.end() ? *tried.front().excess : *waits->excess);
    const bool preempts = asked.preempts && tried.front().excess->releasesMayHelp();
    const auto delay =
        preempts ? parts_.preemptor.awaitSearch(claim, claimKey(core::keyOf(claim.metadata))) : milliseconds(0);
    return outcome.isDone() && delay.count() > 0 ? Outcome::after(delay).reports(std::move(outcome.updates)) : outcome;
  }
  const auto more = [&] {
    const auto taints = untoleratedText(context_.stores, *asked.cls);
    return taints.empty() ? taints : "nodes that class " + asked.cls->metadata.name + " does not tolerate: " + taints;
  };
  const auto whyUnsuited = [&backoff = context_.waiting.nodes, uid = claim.metadata.uid](std::string_view node) {
    return std::string(backoff.rejected(uid, node) ? kNodeRejected : kUntolerated);
  };
  return parts_.report.noFit(
      {claim, asked, claimKey(core::keyOf(claim.metadata)), [&suits] { return suits; }, nodes, whyUnsuited, more});
}

Outcome ClaimPlacement::reconcile(const cache::Claim& claim, ResolvedClaim asked, std::stop_token stop) {
  const auto queueKey = claimKey(core::keyOf(claim.metadata));
  const auto& uid = claim.metadata.uid;
  // Before deciding: capacity that becomes free, and taints that are removed, from now on requeue this claim.
  const auto admission =
      context_.waiting.unschedulable.add(queueKey, ageOf(claim.metadata), asked.order.priority, needsOf(claim, asked));
  if (!admission.isGranted) return Outcome::after(context_.timeouts.queueYieldTimeout);
  asked.order.releases = admission.releases;
  // No pod is known, so the tolerations of the class count.
  const bool anyRejected = context_.waiting.nodes.anyRejected(uid);
  const auto nodes = anyRejected ? std::string() : toleratedNodesText(context_.stores, *asked.cls);
  const auto tolerated = toleratedNodes(context_.stores, *asked.cls);
  const auto suits = !anyRejected
                         ? tolerated
                         : scheduler::NodePredicate([&backoff = context_.waiting.nodes, uid, tolerated](auto node) {
                             return !backoff.rejected(uid, node) && (!tolerated || tolerated(node));
                           });
  auto decided = decideFirst(claim, asked, suits, nodes);
  using DecisionResult = UnschedulableQueue::DecisionResult;
  const auto* tried = std::get_if<std::vector<scheduler::Decision>>(&decided);
  if (tried != nullptr && !tried->back().fits && context_.cluster.isOutdated(asked.order)) {
    decided = Outcome::requeueNow();
    tried = nullptr;
  }
  if (tried == nullptr) {
    if (context_.waiting.unschedulable.decided(queueKey, DecisionResult::unknown)) context_.enqueue(capacityKey());
    return std::get<Outcome>(std::move(decided));
  }
  if (context_.waiting.unschedulable.decided(queueKey,
                                             tried->back().fits ? DecisionResult::capacity : DecisionResult::nothing))
    context_.enqueue(capacityKey());
  if (tried->back().fits) {
    context_.waiting.remove(queueKey);
    return parts_.intents.write(claim, *asked.cls, tried->back(), stop);
  }
  auto outcome = noneFits(claim, asked, *tried, suits, nodes, stop);
  const auto wait = context_.waiting.nodes.untilNextNode(uid);
  return outcome.isDone() && wait.count() > 0 ? Outcome::after(wait).reports(std::move(outcome.updates)) : outcome;
}

scheduler::Decision ClaimPlacement::decide(const cache::Claim& claim, const ResolvedClaim& asked,
                                           const scheduler::NodePredicate& suits, const std::string& nodes) {
  const auto& uid = claim.metadata.uid;
  auto ask = asked.of(claim, nodes);
  const auto elsewhere = [&](std::string_view node) {
    return !context_.waiting.nodes.wasRefusedOn(uid, node) && (!suits || suits(node));
  };
  if (!context_.waiting.nodes.anyRefused(uid)) return context_.cluster.decideAndAssume(ask, suits);
  ask.nodes.clear();
  const bool first = std::exchange(ask.first, false);  // no reservation is made from a subset of the nodes
  auto decision = context_.cluster.decideAndAssume(ask, elsewhere);
  if (decision.fits) return decision;
  ask.first = first;
  ask.nodes = nodes;
  context_.waiting.nodes.forgetRefused(uid);
  return context_.cluster.decideAndAssume(ask, suits);
}

}  // namespace egpu::reconcile
