// GangSync: the step of a gang.
#include <algorithm>
#include <string>
#include <utility>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/gang/gang_sync.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;

Outcome GangSync::waitsForGang(const cache::Claim& claim, std::string why) {
  return Outcome::done().reports(notBound(claim, reason::kWaitingForGang, std::move(why)));
}

Outcome GangSync::reconcile(const core::ObjectKey& gang, std::stop_token stop) {
  const auto before = context_.waiting.rosters.of(gang);
  GangMembers members;
  if (gang.name.starts_with('/')) {
    const auto object = context_.stores.podGroups.get({gang.namespace_, gang.name.substr(1)});
    const auto group = object ? v1alpha::gangOf(*object) : std::nullopt;
    if (group && !context_.stores.claimsOfGang(gang.namespace_, gang.name).empty())
      members = gangs_.membersOfPodGroup(gang.namespace_, *group);
  } else {
    members = gangs_.membersByAnnotation(gang);
  }
  if (members.gang.size == 0) {  // no claim names it, or the PodGroup does not exist or is no gang
    context_.waiting.rosters.erase(gang);
    return Outcome::done();
  }
  members = gangs_.withOpen(std::move(members));
  const auto now = context_.waiting.rosters.set(gang, gangs_.rosterOf(members));
  requeueMembers(gang, before.get(), *now, members);
  if (!members.lacks.empty())
    for (const auto& each : members.here) context_.cluster.releaseReservation(each->metadata.uid);
  if (members.open.empty())
    return members.isEvaluatedAgain ? Outcome::after(context_.timeouts.gangRecheckInterval) : Outcome::done();
  const auto& speaker = *members.open.front();
  // Capacity that a member releases is of no use to the others before this member is decided again. The end of its
  // device requeues the gang.
  if (members.lacks.empty() && members.memberLeaves) return Outcome::done();
  if (members.lacks.empty()) {
    auto outcome = decide(speaker, members, gangKey(gang), stop);
    context_.forgetIfGone(core::keyOf(speaker.metadata), speaker.metadata.uid);
    return outcome;
  }
  auto outcome = isRefusedItself(speaker) ? Outcome::done() : waitsForGang(speaker, members.lacks);
  return members.isEvaluatedAgain
             ? Outcome::after(context_.timeouts.gangRecheckInterval).reports(std::move(outcome.updates))
             : outcome;
}

bool GangSync::isRefusedItself(const cache::Claim& claim) {
  return !parts_.resolver.resolve(claim).ok() || !context_.waiting.provisioners.refusal(claim.metadata.uid).empty();
}

void GangSync::requeueMembers(const core::ObjectKey& gang, const GangRoster* before, const GangRoster& now,
                              const GangMembers& members) {
  const auto wake = [this](const core::ObjectMeta& claim) { context_.enqueue(claimKey(core::keyOf(claim))); };
  if (before == nullptr || !(before->gang == now.gang)) {
    // No claim has reported yet why it waits, or in which gang.
    for (const auto& claim : context_.stores.claimsOfGang(gang.namespace_, gang.name))
      if (claim->status.phase != phase::kBound) wake(claim->metadata);
  } else {
    const bool speakerChanged = before->speaker.uid != now.speaker.uid;
    for (const auto& each : members.open)
      if (speakerChanged || !before->uids.contains(each->metadata.uid)) wake(each->metadata);
    for (const auto& each : before->members)
      if (!now.uids.contains(each.uid)) context_.enqueue(claimKey(each.claim));
    // Claims beyond the size that came with the last member have reported nothing, because they could become members.
    if (now.full && !before->full && !now.gang.podGroup)
      for (const auto& claim : context_.stores.claimsOfGang(gang.namespace_, gang.name))
        if (now.excludes(claim->metadata.uid)) wake(claim->metadata);
    for (const auto& pod : members.furtherPods)
      for (const auto& claim : pod.claims)
        if (!before->furtherUids.contains(claim->metadata.uid)) wake(claim->metadata);
  }
  // A member keeps its nominated capacity as long as the speaker has a nomination.
  const bool nominated = !members.open.empty() && members.open.front()->status.nominated;
  for (const auto& each : members.open)
    if (!nominated && each->status.nominated) wake(each->metadata);
  // Members whose cards waited for other members' cards continue.
  if (now.hasCards && (before == nullptr || !before->hasCards))
    for (const auto& each : members.here)
      if (context_.waiting.gangs.over(GangDeadlines::What::cards, each->metadata.uid)) wake(each->metadata);
  // Members that have a device release it after a while.
  if (before != nullptr && before->hasCards && !now.hasCards)
    for (const auto& each : members.here)
      if (deviceOf(context_.stores, *each)) wake(each->metadata);
  if (now.bound && (before == nullptr || !before->bound)) requeuePods(members);
}

void GangSync::requeuePods(const GangMembers& members) {
  for (const auto& each : members.here)
    for (const auto& pod : context_.stores.podsOfClaim(core::keyOf(each->metadata)))
      context_.enqueue(podKey(core::keyOf(pod->metadata)));
  for (const auto& pod : members.furtherPods) {
    context_.enqueue(podKey(core::keyOf(pod.pod->metadata)));
    for (const auto& claim : pod.claims)
      if (claim->status.phase != phase::kBound) context_.enqueue(claimKey(core::keyOf(claim->metadata)));
  }
}

Outcome GangSync::reportMember(const cache::Claim& claim, const v1alpha::Gang& gang, const GangRoster& roster) {
  const auto& uid = claim.metadata.uid;
  if (!roster.uids.contains(uid)) {
    context_.cluster.releaseReservation(uid);
    if (!(roster.gang == gang))
      return waitsForGang(
          claim, "claim " + roster.definer.claim.name + " sets a different size or topology for " + gang.text());
    if (roster.full)
      return waitsForGang(claim, gang.podGroup
                                     ? "no pod of " + gang.text() + " uses it"
                                     : gang.text() + " has its " + std::to_string(gang.size) + " members already");
    return gang.podGroup ? waitsForGang(claim, roster.lacks) : Outcome::done();  // the gang's next step requeues it
  }
  if (roster.speaker.uid.empty() || roster.speaker.uid == uid) return Outcome::done();
  const auto speaker = context_.stores.claims.get(roster.speaker.claim);
  // Its capacity stays nominated as long as the speaker reports the victims.
  if (claim.status.nominated && speaker && speaker->status.nominated) return Outcome::done();
  return waitsForGang(claim, "see claim " + roster.speaker.claim.name + " for what " + gang.text() + " waits for");
}

}  // namespace egpu::reconcile
