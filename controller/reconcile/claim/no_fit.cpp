// (C6) Decides the first alternative of a claim that fits (spec.firstAvailable; most claims have one). The device (W1)
// names it, so that no later step chooses again. If none fits, reports why, and remedies.
#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "api/v1alpha/size.h"
#include "controller/reconcile/claim/claim.h"
#include "controller/reconcile/class/bare_memory.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/queue_key.h"
#include "controller/scheduler/first_available.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {
constexpr std::size_t kMaxNamed = 3;            ///< cards or devices named in a message
constexpr std::size_t kMaxTroubleLength = 200;  ///< characters of a card's trouble in a message
}  // namespace

RoomNeeds needsOf(const cache::Claim& claim, const ResolvedClaim& asked) {
  RoomNeeds needs{{asked.of(claim)}};
  for (std::size_t i = 1; i < asked.alternatives(); ++i) needs.anyOf.push_back(asked.alternative(i).of(claim));
  return needs;
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
    if (auto making = nominateVictims(claim, asked, suits, stop)) return *std::move(making);
  if (std::all_of(tried.begin(), tried.end(), overQuotas)) {
    // A quota that lets the claim wait is reported rather than one that refuses it.
    const auto waits = std::find_if(tried.begin(), tried.end(), [](const auto& each) { return !each.excess->refuse; });
    auto outcome = overQuota(claim, waits == tried.end() ? *tried.front().excess : *waits->excess);
    const bool preempts = asked.preempts && tried.front().excess->releasesMayHelp();
    const auto turn = preempts ? awaitPlan(claim, claimKey(core::keyOf(claim.metadata))) : milliseconds(0);
    return outcome.isDone() && turn.count() > 0 ? Outcome::after(turn).reports(std::move(outcome.updates)) : outcome;
  }
  const auto more = [&] {
    const auto taints = untoleratedText(stores_, *asked.cls);
    return taints.empty() ? taints : "nodes that class " + asked.cls->metadata.name + " does not tolerate: " + taints;
  };
  const auto whyUnsuited = [&](std::string_view node) {
    return std::string(waiting_.nodes.rejected(claim.metadata.uid, node) ? kLeftAlone : kUntolerated);
  };
  return noFit(claim, asked, suits, nodes, more, whyUnsuited);
}

std::string ClaimSync::whyNot(const cache::Claim& claim, const ResolvedClaim& asked,
                              const scheduler::NodePredicate& suits, const std::string& nodes,
                              const scheduler::WhyUnsuited& whyUnsuited) const {
  std::string text;
  for (std::size_t i = 0; i < asked.alternatives(); ++i) {
    auto ask = i == 0 ? asked.of(claim) : asked.alternative(i).of(claim);
    const auto why = cluster_.queries().explain(cluster_.queries().withinQuota(ask), suits, nodes, whyUnsuited).text();
    if (i < claim.spec.firstAvailable.size()) text += (i == 0 ? "" : "; ") + claim.spec.firstAvailable[i].name + ": ";
    text += why;
  }
  return text;
}

Outcome ClaimSync::noFit(const cache::Claim& claim, const ResolvedClaim& asked, const scheduler::NodePredicate& suits,
                         const std::string& nodes, const std::function<std::string()>& more,
                         const scheduler::WhyUnsuited& whyUnsuited) {
  const auto* old = findCondition(claim.status.conditions, kBound);
  const bool told = old != nullptr && old->reason == reason::kNoFit && claim.status.phase == phase::kPending;
  // The explanation changes with every release, so it is written at intervals only.
  if (!waiting_.room.mayExplain(claim.metadata.uid) && told)
    return Outcome::after(UnschedulableQueue::kExplainInterval);
  if (isStatic(claim)) {
    auto why = cluster_.allocationMap().quarantineReason(claim.spec.elasticGPUName);
    if (const auto card = stores_.cards.get({"", claim.spec.elasticGPUName}))
      if (const auto trouble = stores_.troubleOf(*card); trouble && trouble.reason == why) why = trouble.text();
    if (!why.empty())
      return Outcome::done().reports(
          notBound(claim, reason::kNoFit, "card " + claim.spec.elasticGPUName + " is not available: " + why));
  }
  auto why = whyNot(claim, asked, suits, nodes, whyUnsuited);
  if (auto rejections = waiting_.nodes.text(claim.metadata.uid); !rejections.empty()) why += "; " + rejections;
  if (auto rest = cluster_.queries().keptFrom(asked.of(claim)); !rest.empty()) why += "; " + rest;
  if (auto rest = cluster_.queries().reservationText(claim.metadata.uid); !rest.empty()) why += "; " + rest;
  if (auto rest = unavailableCapacityMessage(asked.request); !rest.empty()) why += "; " + rest;
  if (auto hint = bareMemoryHint(stores_, claim.spec.requests, asked.request); !hint.empty()) why += "; " + hint;
  if (auto rest = more ? more() : std::string(); !rest.empty()) why += "; " + rest;
  const auto turn = asked.preempts ? awaitPlan(claim, claimKey(core::keyOf(claim.metadata))) : milliseconds(0);
  return (turn.count() > 0 ? Outcome::after(turn) : Outcome::done()).reports(notBound(claim, reason::kNoFit, why));
}

std::string ClaimSync::unavailableCapacityMessage(const scheduler::Request& request) const {
  const auto wanted = [&](const cache::Gpu& card) {
    const auto& models = request.models;
    return models.empty() || std::find(models.begin(), models.end(), card.spec.card->model) != models.end();
  };
  std::string text;
  std::size_t named = 0;
  for (const auto& card : stores_.cardsInTrouble()) {
    if (!wanted(*card)) continue;
    if (++named > kMaxNamed) {
      text += ", …";
      break;
    }
    text += (named == 1 ? "unavailable cards: " : ", ") + card->metadata.name + " on node " +
            card->spec.card->nodeName + " (" + stores_.troubleOf(*card).text().substr(0, kMaxTroubleLength) + ")";
  }
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  if (const auto kept = keptDevices(phase::kReleased, wanted); kept.count > 0)
    add(kept.text("retained after their claims (reclaimPolicy Retain): kubectl delete egpu" +
                  (kept.count > kMaxNamed ? " --field-selector=status.phase=Released" : kept.names) + " frees " +
                  (kept.count > 1 ? "them" : "it")));
  if (const auto kept = keptDevices(phase::kAvailable, wanted); kept.count > 0)
    add(kept.text("for claims of the same class that name one in spec.elasticGPUName:" + kept.names));
  return text;
}

std::string ClaimSync::UnclaimedDevices::text(const std::string& rest) const {
  return std::to_string(count) + " " + phase + (count > 1 ? " devices hold " : " device holds ") +
         v1alpha::formatMilliCards(held.core) + " and " + v1alpha::formatBytes(held.memory) + ", " + rest;
}

ClaimSync::UnclaimedDevices ClaimSync::keptDevices(std::string_view phase,
                                                   const std::function<bool(const cache::Gpu&)>& wanted) const {
  UnclaimedDevices kept;
  kept.phase = phase;
  for (const auto& device : stores_.devicesInPhase(phase)) {
    if (phase == phase::kAvailable && device->spec.claimRef) continue;  // about to be bound
    bool counts = false;
    for (const auto& share : v1alpha::cardsInForce(*device)) {
      const auto card = stores_.cards.get({"", share.name});
      if (!card || !wanted(*card)) continue;
      kept.held.core += share.chargedCore;
      kept.held.memory += share.chargedMemory;
      counts = true;
    }
    if (!counts || ++kept.count > kMaxNamed + 1) continue;
    kept.names += kept.count > kMaxNamed ? " …" : " " + device->metadata.name;
  }
  return kept;
}

}  // namespace egpu::reconcile
