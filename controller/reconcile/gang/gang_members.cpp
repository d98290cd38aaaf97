// (C14) Members of a gang. Members are chosen once: a claim with a device or decision stays a member, and so does a
// claim that the gang's last step chose, whatever claims come later.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "api/v1alpha/gang.h"
#include "api/v1alpha/keys.h"
#include "controller/reconcile/claim/claim.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/gang/gang_choice.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/pod/schedulability.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;

namespace {

bool isOlder(const ClaimPtr& a, const ClaimPtr& b) { return ageOf(a->metadata) < ageOf(b->metadata); }

bool allBound(const std::vector<ClaimPtr>& claims) {
  return std::all_of(claims.begin(), claims.end(),
                     [](const auto& each) { return each->status.phase == phase::kBound; });
}

}  // namespace

ClaimSync::GangMembers ClaimSync::membersOf(const cache::Claim& claim, const v1alpha::Gang& gang) const {
  const auto id = gangIdOf(claim.metadata.namespace_, gang);
  const auto roster = context_.waiting.rosters.of(id);
  auto chosen = roster ? membersAsChosen(claim, *roster) : std::nullopt;
  if (chosen) return *std::move(chosen);
  auto members = gang.podGroup ? membersOfGroup(id.namespace_, gang) : membersByAnnotation(id);
  if (members.has(claim)) return members;
  const auto own = std::find_if(members.furtherPods.begin(), members.furtherPods.end(), [&](const auto& pod) {
    return std::any_of(pod.claims.begin(), pod.claims.end(),
                       [&](const auto& each) { return each->metadata.uid == claim.metadata.uid; });
  });
  if (own != members.furtherPods.end()) {
    if (members.lacks.empty() && !allBound(members.here))
      members.lacks = "the first " + std::to_string(gang.size) + " pods of " + gang.text() + " are placed before it";
    addFurtherPod(members, *own);
  } else if (gang.podGroup) {
    if (members.lacks.empty()) members.lacks = "no pod of " + gang.text() + " uses it";
  } else {
    members.lacks = gang.text() + " has its " + std::to_string(members.gang.size) + " members already";
  }
  return members;
}

void ClaimSync::addFurtherPod(GangMembers& members, const GroupPod& pod) const {
  members.here.insert(members.here.end(), pod.claims.begin(), pod.claims.end());
  std::sort(members.here.begin(), members.here.end(), isOlder);
  members.here.erase(std::unique(members.here.begin(), members.here.end()), members.here.end());  // pods may share one
  if (pod.whole || !members.lacks.empty()) return;
  members.lacks = notMadeText(pod);
  members.missing = members.looksAgain = true;
}

std::optional<ClaimSync::GangMembers> ClaimSync::membersAsChosen(const cache::Claim& claim,
                                                                 const GangRoster& roster) const {
  const bool further = roster.furtherUids.contains(claim.metadata.uid);
  if (!roster.full || !roster.lacks.empty() || (further && !roster.bound)) return std::nullopt;
  if (!further && !roster.uids.contains(claim.metadata.uid)) return std::nullopt;
  GangMembers members;
  members.gang = roster.gang;
  members.full = true;
  members.gone = roster.gone;
  if (further) {
    if (!roster.hasCards) return std::nullopt;
    members.others = roster.members.size();
    members.standsOn = roster.standsOn;
    for (const auto& pod : context_.stores.podsOfClaim(core::keyOf(claim.metadata)))
      if (pod->podGroupName == roster.gang.name && isUser(context_.stores, *pod))
        addFurtherPod(members, groupPodOf(context_.stores, pod, roster.gang.name));
    return members.has(claim) ? std::optional(std::move(members)) : std::nullopt;
  }
  const auto id = gangIdOf(claim.metadata.namespace_, roster.gang);
  for (const auto& member : roster.members) {
    auto known = context_.stores.claims.get(member.claim);
    if (!known || known->metadata.uid != member.uid || known->metadata.deleting() || gangNamedBy(*known) != id)
      return std::nullopt;
    members.here.push_back(std::move(known));
  }
  return members;
}

ClaimSync::GangMembers ClaimSync::membersByAnnotation(const core::ObjectKey& gang) const {
  const auto roster = context_.waiting.rosters.of(gang);
  return {chooseByAnnotation(context_.stores, context_.cluster, gang,
                             {[&roster](const std::string& uid) { return roster && roster->uids.contains(uid); },
                              [this](const cache::Claim& claim) { return wasLetGo(claim); }})};
}

ClaimSync::GangMembers ClaimSync::membersOfGroup(const std::string& namespace_, const v1alpha::Gang& gang) const {
  return {chooseOfGroup(context_.stores, context_.cluster, namespace_, gang)};
}

ClaimSync::GangMembers ClaimSync::withOpen(GangMembers members) const {
  auto found = openMembersOf(context_.stores, context_.cluster, members.here);
  members.open = std::move(found.open);
  members.standsOn = std::move(found.standsOn);
  members.oneLeaves = found.leaves != nullptr;
  return members;
}

bool ClaimSync::anyPodUngated(const GangMembers& members) const {
  return std::any_of(members.here.begin(), members.here.end(), [this](const auto& each) { return wasLetGo(*each); });
}

bool ClaimSync::gangIsBound(const cache::Claim& claim) const {
  if (!inGang(context_.stores, claim) || v1alpha::gangMistake(claim.metadata.annotations)) return true;
  const auto gang = gangOf(context_.stores, claim);
  if (!gang) return false;
  const auto roster = context_.waiting.rosters.of(gangIdOf(claim.metadata.namespace_, *gang));
  if (roster && roster->full && !roster->bound) return false;  // wakeGang() requeues its pods
  const auto members = membersOf(claim, *gang);
  return allBound(members.here) && (!members.missing || members.gone || anyPodUngated(members));
}

GangRoster ClaimSync::rosterOf(const GangMembers& members) const {
  const auto member = [](const ClaimPtr& claim) {
    return claim ? GangRoster::Member{core::keyOf(claim->metadata), claim->metadata.uid} : GangRoster::Member();
  };
  GangRoster roster;
  roster.gang = members.gang;
  for (const auto& each : members.here) {
    roster.members.push_back(member(each));
    roster.uids.insert(each->metadata.uid);
  }
  for (const auto& pod : members.furtherPods)
    for (const auto& each : pod.claims)
      if (!roster.uids.contains(each->metadata.uid)) roster.furtherUids.insert(each->metadata.uid);
  roster.definer = member(members.definer);
  roster.speaker = member(members.open.empty() ? nullptr : members.open.front());
  roster.standsOn = members.standsOn;
  roster.lacks = members.lacks;
  roster.full = members.full;
  roster.gone = members.gone;
  const bool whole = !members.missing || members.gone || anyPodUngated(members);
  roster.bound = whole && allBound(members.here);
  roster.hasCards = !members.missing && std::all_of(members.here.begin(), members.here.end(), [this](const auto& each) {
    return hasItsCards(context_.stores, *each);
  });
  return roster;
}

}  // namespace egpu::reconcile
