// (C6) Choice by a class's plugin among the best candidates.
#include <algorithm>

#include "api/v1alpha/keys.h"
#include "controller/plugin/call.h"
#include "controller/reconcile/claim/claim.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/queue_key.h"
#include "controller/scheduler/first_available.h"

namespace egpu::reconcile {

namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {
constexpr std::chrono::milliseconds kVetoedFor{120'000};  ///< documented in provisioner.h
}  // namespace

std::variant<scheduler::Decision, Outcome> ClaimSync::decideAsPreferred(const cache::Claim& claim,
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
  if (!answer) return Outcome::after(kPluginBusy);
  if (answer->reply.outcome != plugin::ReplyCode::ok) return decide(claim, asked, suits, nodes);
  auto ask = asked.of(claim);
  ask.first = false;  // no reservation is made from these nodes only
  for (const auto& node : preferredNodes(claim, asked, candidates, *answer)) {
    ask.request.pinnedNode = node;
    if (auto decision = context_.cluster.decideAndAssume(ask, suits); decision.fits) return decision;
  }
  // All are vetoed, or were taken meanwhile: the next attempt has other candidates.
  context_.waiting.nodes.choiceFailed(uid);
  auto outcome = Outcome::after(context_.waiting.nodes.untilNextChoice(uid));
  if (const auto why = context_.waiting.nodes.text(uid); !why.empty())
    outcome.updates.push_back(notBound(claim, reason::kNodeUnsuitable, why));
  return outcome;
}

std::vector<std::string> ClaimSync::preferredNodes(const cache::Claim& claim, const ResolvedClaim& asked,
                                                   const std::vector<scheduler::Decision>& candidates,
                                                   const plugin::PreferReply& answer) {
  std::vector<std::string> nodes;
  std::vector<bool> told(candidates.size(), false);
  for (const auto& veto : answer.vetoes) {
    told[veto.candidate] = true;
    context_.waiting.nodes.reject(claim.metadata.uid, candidates[veto.candidate].node,
                                  asked.cls->provisioner + (veto.why.empty() ? " vetoed it" : ": " + veto.why),
                                  kVetoedFor);
  }
  for (const auto candidate : answer.order) {
    told[candidate] = true;
    nodes.push_back(candidates[candidate].node);
  }
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (!told[i]) nodes.push_back(candidates[i].node);
  return nodes;
}

std::variant<std::vector<scheduler::Decision>, Outcome> ClaimSync::decideFirst(const cache::Claim& claim,
                                                                               const ResolvedClaim& asked,
                                                                               const scheduler::NodePredicate& suits,
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

Outcome ClaimSync::noneFits(const cache::Claim& claim, const ResolvedClaim& asked,
                            const std::vector<scheduler::Decision>& tried, const scheduler::NodePredicate& suits,
                            const std::string& nodes, std::stop_token stop) {
  const auto overQuotas = [](const auto& decision) { return decision.excess.has_value(); };
  if (const auto& excess = tried.front().excess; !excess || excess->releasesMayHelp())
    if (auto making = preemptor_.nominateVictims(claim, asked, suits, stop)) return *std::move(making);
  if (std::all_of(tried.begin(), tried.end(), overQuotas)) {
    // A quota that lets the claim wait is reported rather than one that refuses it.
    const auto waits = std::find_if(tried.begin(), tried.end(), [](const auto& each) { return !each.excess->refuse; });
    auto outcome = report_.overQuota(claim, waits == tried.end() ? *tried.front().excess : *waits->excess);
    const bool preempts = asked.preempts && tried.front().excess->releasesMayHelp();
    const auto turn = preempts ? preemptor_.awaitSearch(claim, claimKey(core::keyOf(claim.metadata))) : milliseconds(0);
    return outcome.isDone() && turn.count() > 0 ? Outcome::after(turn).reports(std::move(outcome.updates)) : outcome;
  }
  const auto more = [&] {
    const auto taints = untoleratedText(context_.stores, *asked.cls);
    return taints.empty() ? taints : "nodes that class " + asked.cls->metadata.name + " does not tolerate: " + taints;
  };
  const auto whyUnsuited = [&](std::string_view node) {
    return std::string(context_.waiting.nodes.rejected(claim.metadata.uid, node) ? kLeftAlone : kUntolerated);
  };
  return report_.noFit(claim, asked, suits, nodes, more, whyUnsuited);
}

}  // namespace egpu::reconcile
