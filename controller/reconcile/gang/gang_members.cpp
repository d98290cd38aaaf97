#include "controller/reconcile/gang/gang_members.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "api/v1alpha/gang.h"
#include "api/v1alpha/keys.h"
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

GangMembers GangMembership::membersOf(const cache::Claim& claim, const v1alpha::Gang& gang) const {
  const auto id = gangIdOf(claim.metadata.namespace_, gang);
  const auto roster = context_.waiting.rosters.of(id);
  auto chosen = roster ? membersAsChosen(claim, *roster) : std::nullopt;
  if (chosen) return *std::move(chosen);
  auto members = gang.podGroup ? membersOfPodGroup(id.namespace_, gang) : membersByAnnotation(id);
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

void GangMembership::addFurtherPod(GangMembers& members, const GroupPod& pod) const {
  members.here.insert(members.here.end(), pod.claims.begin(), pod.claims.end());
  std::sort(members.here.begin(), members.here.end(), isOlder);
  members.here.erase(std::unique(members.here.begin(), members.here.end()), members.here.end());  // pods may share one
  if (pod.whole || !members.lacks.empty()) return;
  members.lacks = notMadeText(pod);
  members.missing = members.isEvaluatedAgain = true;
}

std::optional<GangMembers> GangMembership::membersAsChosen(const cache::Claim& claim, const GangRoster& roster) const {
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

GangMembers GangMembership::membersByAnnotation(const core::ObjectKey& gang) const {
  const auto roster = context_.waiting.rosters.of(gang);
  return {chooseByAnnotation(context_.stores, context_.cluster, gang,
                             {[&roster](const std::string& uid) { return roster && roster->uids.contains(uid); },
                              [this](const cache::Claim& claim) { return mayRun(claim); }})};
}

GangMembers GangMembership::membersOfPodGroup(const std::string& namespace_, const v1alpha::Gang& gang) const {
  return {chooseOfGroup(context_.stores, context_.cluster, namespace_, gang)};
}

GangMembers GangMembership::withOpen(GangMembers members) const {
  auto found = openMembersOf(context_.stores, context_.cluster, members.here);
  members.open = std::move(found.open);
  members.standsOn = std::move(found.standsOn);
  members.memberLeaves = found.leaves != nullptr;
  return members;
}

bool GangMembership::anyPodUngated(const GangMembers& members) const {
  return std::any_of(members.here.begin(), members.here.end(), [this](const auto& each) { return mayRun(*each); });
}

bool GangMembership::isBound(const cache::Claim& claim) const {
  if (!inGang(context_.stores, claim) || v1alpha::gangMistake(claim.metadata.annotations)) return true;
  const auto gang = gangOf(context_.stores, claim);
  if (!gang) return false;
  const auto roster = context_.waiting.rosters.of(gangIdOf(claim.metadata.namespace_, *gang));
  if (roster && roster->full && !roster->bound) return false;  // the step of the gang requeues its pods
  const auto members = membersOf(claim, *gang);
  return allBound(members.here) && (!members.missing || members.gone || anyPodUngated(members));
}

GangRoster GangMembership::rosterOf(const GangMembers& members) const {
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

GangCards GangMembership::knownCardsOf(const cache::Claim& claim, const core::ObjectKey& gang) const {
  const auto roster = context_.waiting.rosters.of(gang);
  if (!roster || !roster->full || !roster->lacks.empty() || !roster->uids.contains(claim.metadata.uid)) return {};
  if (roster->hasCards) return {true};  // a member that loses its cards requeues the gang's step
  for (auto i = context_.waiting.rosters.firstWithoutCards(gang); i < roster->members.size(); ++i) {
    auto member = context_.stores.claims.get(roster->members[i].claim);
    if (!member || member->metadata.uid != roster->members[i].uid || member->metadata.deleting()) return {};
    if (hasItsCards(context_.stores, *member)) continue;
    context_.waiting.rosters.noteWithoutCards(gang, i);
    return {false, std::move(member)};
  }
  return {};
}

GangCards GangMembership::cardsOf(const GangMembers& members, const core::ObjectKey& gang,
                                  const GangRosters::Ptr& roster) const {
  const auto& here = members.here;
  const auto lacks = std::find_if_not(here.begin(), here.end(),
                                      [this](const auto& each) { return hasItsCards(context_.stores, *each); });
  if (lacks != here.end()) {
    context_.waiting.rosters.noteWithoutCards(gang, static_cast<std::size_t>(lacks - here.begin()));
    return {false, *lacks};
  }
  const bool asChosen = roster && roster->full && here.size() == roster->members.size() &&
                        std::all_of(here.begin(), here.end(),
                                    [&](const auto& each) { return roster->uids.contains(each->metadata.uid); });
  if (!members.missing && asChosen) context_.waiting.rosters.noteCards(gang, roster);
  return {!members.missing};
}

bool GangMembership::mayRun(const cache::Claim& claim) const {
  if (isReservedForPod(context_.stores, claim) || context_.users.isInUse(core::keyOf(claim.metadata))) return true;
  const auto pods = context_.stores.podsOfClaim(core::keyOf(claim.metadata));
  return std::any_of(pods.begin(), pods.end(), [](const auto& pod) { return alive(*pod) && !gated(*pod); });
}

}  // namespace egpu::reconcile
