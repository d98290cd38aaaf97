// UnschedulableReport: no node has capacity for the claim.
#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "api/v1alpha/size.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/class/bare_memory.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/placement/unschedulable_report.h"
#include "controller/reconcile/queue_key.h"
#include "controller/scheduler/first_available.h"
#include "controller/scheduler/remedies/unit_question.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {
constexpr std::size_t kMaxNamed = 3;            ///< cards or devices named in a message
constexpr std::size_t kMaxTroubleLength = 200;  ///< characters of a card's trouble in a message
}  // namespace

Explainer::Explain UnschedulableReport::explanationOf(const NoFit& found) const {
  struct Alternative {
    std::string name;  ///< empty: the claim has no alternatives
    allocator::SchedulingRequest ask;
  };
  std::vector<Alternative> all;
  const auto& listed = found.claim.spec.firstAvailable;
  for (std::size_t i = 0; i < found.asked.alternatives(); ++i)
    all.push_back({i < listed.size() ? listed[i].name : std::string(), found.asked.alternative(i).of(found.claim)});
  return [&queries = context_.cluster.queries(), all = std::move(all), suits = found.suits(), nodes = found.nodes,
          whyUnsuited = found.whyUnsuited] {
    Explainer::Text made;
    for (const auto& [name, ask] : all) {
      if (!name.empty()) made.text += (made.text.empty() ? "" : "; ") + name + ": ";
      const auto explanation = queries.explain(queries.withinQuota(ask), suits, nodes, whyUnsuited);
      made.text += explanation.text();
      made.nodes += explanation.nodes();
    }
    return made;
  };
}

Outcome UnschedulableReport::noFit(const NoFit& found) {
  const auto& [claim, asked, queueKey, suits, nodes, whyUnsuited, more] = found;
  const auto& uid = claim.metadata.uid;
  if (isStatic(claim)) {
    auto why = context_.cluster.allocationMap().quarantineReason(claim.spec.elasticGPUName);
    if (const auto card = context_.stores.cards.get({"", claim.spec.elasticGPUName}))
      if (const auto trouble = context_.stores.troubleOf(*card); trouble && trouble.reason == why) why = trouble.text();
    if (!why.empty())
      return Outcome::done().reports(
          notBound(claim, reason::kNoFit, "card " + claim.spec.elasticGPUName + " is not available: " + why));
  }
  auto explained = context_.waiting.explainer.take(uid);
  if (!explained) {
    if (const auto wait = preemptor_.waitForPreemptor(claim, asked.of(claim)); wait.count() > 0) {
      const auto search = asked.preempts ? preemptor_.awaitSearch(claim, claimKey(core::keyOf(claim.metadata))) : wait;
      return Outcome::after(search.count() > 0 ? std::min(search, wait) : wait);
    }
    // The explanation changes with every release, so it is written at intervals only.
    const auto* old = findCondition(claim.status.conditions, kBound);
    const bool isReported = old != nullptr && old->reason == reason::kNoFit && claim.status.phase == phase::kPending;
    if (!context_.waiting.unschedulable.mayExplain(uid) && isReported)
      return Outcome::after(context_.timeouts.explainInterval);
    context_.waiting.explainer.request(uid, queueKey, explanationOf(found));
    context_.enqueue(explainKey());
    return Outcome::done();
  }
  auto why = *std::move(explained);
  if (auto rejections = context_.waiting.nodes.text(uid); !rejections.empty()) why += "; " + rejections;
  if (auto rest = context_.cluster.queries().withheldText(asked.of(claim)); !rest.empty()) why += "; " + rest;
  if (auto rest = context_.cluster.queries().reservationText(uid); !rest.empty()) why += "; " + rest;
  if (auto rest = unavailableCapacityMessage(asked.request); !rest.empty()) why += "; " + rest;
  const bool asksForUnit = why.find(scheduler::kUnitQuestion) != std::string::npos;
  if (auto hint = bareMemoryHint(context_.stores, claim.spec.requests, asked.request); !asksForUnit && !hint.empty())
    why += "; " + hint;
  if (auto rest = more ? more() : std::string(); !rest.empty()) why += "; " + rest;
  const auto delay =
      asked.preempts ? preemptor_.awaitSearch(claim, claimKey(core::keyOf(claim.metadata))) : milliseconds(0);
  return (delay.count() > 0 ? Outcome::after(delay) : Outcome::done()).reports(notBound(claim, reason::kNoFit, why));
}

std::string UnschedulableReport::unavailableCapacityMessage(const scheduler::Request& request) const {
  const auto wanted = [&](const cache::Gpu& card) {
    const auto& models = request.models;
    return models.empty() || std::find(models.begin(), models.end(), card.spec.card->model) != models.end();
  };
  std::string text;
  std::size_t named = 0;
  for (const auto& card : context_.stores.cardsInTrouble()) {
    if (!wanted(*card)) continue;
    if (++named > kMaxNamed) {
      text += ", …";
      break;
    }
    text += (named == 1 ? "unavailable cards: " : ", ") + card->metadata.name + " on node " +
            card->spec.card->nodeName + " (" + context_.stores.troubleOf(*card).text().substr(0, kMaxTroubleLength) +
            ")";
  }
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  if (const auto devices = unclaimedDevices(phase::kReleased, wanted); devices.count > 0)
    add(devices.text("retained after their claims (reclaimPolicy Retain): kubectl delete egpu" +
                     (devices.count > kMaxNamed ? " --field-selector=status.phase=Released" : devices.names) +
                     " frees " + (devices.count > 1 ? "them" : "it")));
  if (const auto devices = unclaimedDevices(phase::kAvailable, wanted); devices.count > 0)
    add(devices.text("for claims of the same class that name one in spec.elasticGPUName:" + devices.names));
  return text;
}

std::string UnschedulableReport::UnclaimedDevices::text(const std::string& rest) const {
  return std::to_string(count) + " " + phase + (count > 1 ? " devices hold " : " device holds ") +
         v1alpha::formatMilliCards(held.core) + " and " + v1alpha::formatBytes(held.memory) + ", " + rest;
}

UnschedulableReport::UnclaimedDevices UnschedulableReport::unclaimedDevices(
    std::string_view phase, const std::function<bool(const cache::Gpu&)>& wanted) const {
  UnclaimedDevices devices;
  devices.phase = phase;
  for (const auto& device : context_.stores.devicesInPhase(phase)) {
    if (phase == phase::kAvailable && device->spec.claimRef) continue;  // about to be bound
    bool counts = false;
    for (const auto& share : v1alpha::cardsInForce(*device)) {
      const auto card = context_.stores.cards.get({"", share.name});
      if (!card || !wanted(*card)) continue;
      devices.held.core += share.chargedCore;
      devices.held.memory += share.chargedMemory;
      counts = true;
    }
    if (!counts || ++devices.count > kMaxNamed + 1) continue;
    devices.names += devices.count > kMaxNamed ? " …" : " " + device->metadata.name;
  }
  return devices;
}

}  // namespace egpu::reconcile
