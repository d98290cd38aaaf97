#include "controller/reconcile/gang/incomplete_gang.h"

#include <algorithm>

#include "api/v1alpha/gang.h"
#include "api/v1alpha/keys.h"
#include "controller/base/log.h"
#include "controller/base/timestamp.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/claim/quorum_reads.h"
#include "controller/reconcile/claim/release.h"
#include "controller/reconcile/device/lost_cards.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

std::string IncompleteGang::memberWithoutCards(const cache::Claim& claim, const cache::Gpu& device) const {
  const auto gang = inGang(context_.stores, claim) ? gangOf(context_.stores, claim) : std::nullopt;
  // A retained device may hold data of its user.
  if (!gang || isStatic(claim) || device.spec.reclaimPolicy != "Delete") return {};
  const auto id = gangIdOf(claim.metadata.namespace_, *gang);
  auto cards = gangs_.knownCardsOf(claim, id);
  if (!cards.all && !cards.lacks) {
    const auto roster = context_.waiting.rosters.of(id);
    const auto members = gangs_.membersOf(claim, *gang);
    if (!members.has(claim)) return {};  // one claim too many: no member waits for it
    cards = gangs_.cardsOf(members, id, roster);
  }
  if (cards.all) return {};
  return cards.lacks ? "claim " + cards.lacks->metadata.name + " of " + gang->text() + " has no cards"
                     : "a member of " + gang->text() + " is gone";
}

std::optional<Outcome> IncompleteGang::reconcileBound(const ClaimPtr& claim, const GpuPtr& device, milliseconds* again,
                                                      std::stop_token stop) {
  const bool marked = device->status.reason == reason::kWaitingForGang;
  if (device->status.phase == phase::kFailed)
    return marked ? std::optional(removeFailedDevice(context_, *claim, *device, stop)) : std::nullopt;
  if (device->status.phase != phase::kBound || (!marked && !inGang(context_.stores, *claim))) return std::nullopt;
  if (device->metadata.deleting() || !lostCards(context_.stores, *device).empty())
    return std::nullopt;  // other steps report a lost card or a deletion
  const auto& uid = claim->metadata.uid;
  const auto why = memberWithoutCards(*claim, *device);
  const auto gang = why.empty() ? std::nullopt : gangOf(context_.stores, *claim);
  const auto members = gang ? gangs_.membersOf(*claim, *gang) : GangMembers();
  const bool runs = members.gone || gangs_.anyPodUngated(members);
  if (why.empty() || runs) {
    context_.waiting.gangs.over(GangDeadlines::What::whole, uid);
    if (runs) *again = context_.timeouts.runningGangInterval;
    if (!marked) return std::nullopt;
    return Outcome::nextState(
        context_.binder.setPhase(*device, phase::kBound, "", "", stop).status());  // it keeps its device
  }
  if (marked) return releaseMarked(*claim, *device, stop);
  *again = context_.timeouts.gangRecheckInterval;
  if (context_.waiting.gangs.since(GangDeadlines::What::whole, uid, device->metadata.uid) <
          context_.timeouts.gangTimeout ||
      claim->status.phase != phase::kBound)
    return std::nullopt;
  // The time distinguishes this mark from earlier ones, as in victim.cpp.
  const auto text = why + "; its own cards are being released since " + base::rfc3339(context_.clock.wall());
  base::log::info("a gang is incomplete", {{"claim", core::keyOf(claim->metadata).str()}, {"why", why}});
  return Outcome::nextState(
      context_.binder.setPhase(*device, phase::kBound, reason::kWaitingForGang, text, stop).status());
}

Outcome IncompleteGang::releaseMarked(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  const auto key = core::keyOf(claim.metadata);
  const auto resourceClaim =
      context_.bridge.release(key, claim.metadata.uid, device.metadata.name, stop);  // no pod may reserve it again
  if (resourceClaim.state == ResourceClaimBridge::Release::failed) return Outcome::retry(resourceClaim.error);
  if (resourceClaim.state == ResourceClaimBridge::Release::inUse)
    return Outcome::after(context_.timeouts.gangRecheckInterval);
  // The next writes can't be undone, so a quorum read checks that the pods are still gated.
  if (const auto read = readPodsOf(context_, claim, stop); !read.ok()) return Outcome::retry(read);
  const auto used = context_.users.isInUseNow(core::keyOf(claim.metadata), device.spec.nodeName, stop);
  if (!used.ok()) return Outcome::retry(used.status());
  if (*used || gangs_.mayRun(claim)) return Outcome::requeueNow();
  const auto& why = device.status.message;
  const auto* reported = findCondition(claim.status.conditions, kBound);
  if (claim.status.phase != phase::kPending || reported == nullptr || reported->message != why)
    return Outcome::requeueNow().reports(notBound(claim, reason::kWaitingForGang, why));
  return Outcome::nextState(
      context_.binder.setPhase(device, phase::kFailed, reason::kWaitingForGang, why, stop).status());
}

std::optional<Outcome> IncompleteGang::rollBackAfterFailures(const cache::Claim& claim, const cache::Gpu& device,
                                                             const std::string& text, std::stop_token stop) {
  const auto& uid = claim.metadata.uid;
  if (!inGang(context_.stores, claim) || isReservedForPod(context_.stores, claim) ||
      context_.waiting.gangs.since(GangDeadlines::What::provision, uid, device.metadata.uid) <
          context_.timeouts.gangProvisionTimeout)
    return std::nullopt;
  context_.waiting.gangs.over(GangDeadlines::What::provision, uid);
  context_.waiting.provisioners.refused(uid, device.spec.provisioner, text, context_.timeouts.gangProvisionBackoff);
  return rollback_.rollBack(claim, device, {}, stop).reports(notBound(claim, reason::kProvisionFailed, text));
}

std::optional<Outcome> IncompleteGang::awaitMembers(const cache::Claim& claim, const cache::Gpu& device,
                                                    std::stop_token stop) {
  const auto gang = inGang(context_.stores, claim) ? gangOf(context_.stores, claim) : std::nullopt;
  if (!gang || isStatic(claim)) return std::nullopt;
  const auto& uid = claim.metadata.uid;
  const auto id = gangIdOf(claim.metadata.namespace_, *gang);
  auto cards = gangs_.knownCardsOf(claim, id);
  if (!cards.all && !cards.lacks) {
    const auto roster = context_.waiting.rosters.of(id);
    const auto found = gangs_.membersOf(claim, *gang);
    if (!gang->podGroup && found.full && !found.has(claim))  // two leaders chose different members
      return rollback_.rollBack(claim, device, {}, stop).reports(notBound(claim, reason::kWaitingForGang, found.lacks));
    cards = gangs_.cardsOf(found, id, roster);
    for (const auto& member : found.here)  // the earlier members wait for this one
      if (cards.all && member->metadata.uid != uid &&
          context_.waiting.gangs.over(GangDeadlines::What::cards, member->metadata.uid))
        context_.enqueue(claimKey(core::keyOf(member->metadata)));
  }
  if (cards.all) {
    context_.waiting.gangs.over(GangDeadlines::What::cards, uid);
    return std::nullopt;
  }
  const auto why = cards.lacks ? "claim " + cards.lacks->metadata.name + " of " + gang->text() + " has no cards yet"
                               : "a member of " + gang->text() + " is gone";
  const auto waited = context_.waiting.gangs.since(GangDeadlines::What::cards, uid, device.metadata.uid);
  if (waited >= context_.timeouts.gangTimeout) {
    context_.waiting.gangs.over(GangDeadlines::What::cards, uid);
    return rollback_.rollBack(claim, device, {}, stop)
        .reports(notBound(claim, reason::kWaitingForGang, why + ": its own cards are released"));
  }
  auto outcome = Outcome::after(context_.timeouts.gangReportDelay);
  return waited < context_.timeouts.gangReportDelay
             ? std::move(outcome)
             : std::move(outcome).reports(notBound(claim, reason::kWaitingForGang, why));
}

}  // namespace egpu::reconcile
