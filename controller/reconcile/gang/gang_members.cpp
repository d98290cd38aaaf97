// (C14): members of a gang. They are chosen once: a claim that has something already stays a member, and so does one that the last
// step of the gang chose, whatever comes later.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "api/v1alpha/gang.h"
#include "api/v1alpha/keys.h"
#include "controller/reconcile/claim/claim.h"
#include "controller/reconcile/gang/gang_of.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;

namespace {

using ClaimPtr = cache::Store<cache::Claim>::Ptr;

bool isOlder(const ClaimPtr& a, const ClaimPtr& b) { return ageOf(a->metadata) < ageOf(b->metadata); }

bool allBound(const std::vector<ClaimPtr>& claims) {
  return std::all_of(claims.begin(), claims.end(),
                     [](const auto& each) { return each->status.phase == phase::kBound; });
}

/// "2 of 3 members of gang train are here".
std::string hereText(std::size_t here, const char* what, const v1alpha::Gang& gang) {
  return std::to_string(here) + " of " + std::to_string(gang.size) + " " + what + " of " + gang.text() +
         (here == 1 ? " is here" : " are here");
}

std::string notMadeText(const GroupPod& pod) { return "claims of pod " + pod.pod->metadata.name + " are not made yet"; }

std::string differsText(const ClaimPtr& claim, const v1alpha::Gang& gang) {
  return "claim " + claim->metadata.name + " says another size or topology of " + gang.text();
}

/// A claim that names a gang, and what speaks for its being a member.
struct Candidate {
  ClaimPtr claim;
  v1alpha::Gang gang;
  int rank = 3;  ///< 0: it is committed; 1: decided; 2: chosen by the last step
  bool isDecided() const { return rank <= 1; }
};

}  // namespace

ClaimSync::GangMembers ClaimSync::membersOf(const cache::Claim& claim, const v1alpha::Gang& gang) const {
  const auto id = gangIdOf(claim.metadata.namespace_, gang);
  const auto roster = waiting_.rosters.of(id);
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
      members.lacks = "the first " + std::to_string(gang.size) + " pods of " + gang.text() + " come before it";
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
    for (const auto& pod : stores_.podsOfClaim(core::keyOf(claim.metadata)))
      if (pod->podGroupName == roster.gang.name && isUser(stores_, *pod))
        addFurtherPod(members, groupPodOf(stores_, pod, roster.gang.name));
    return members.has(claim) ? std::optional(std::move(members)) : std::nullopt;
  }
  const auto id = gangIdOf(claim.metadata.namespace_, roster.gang);
  for (const auto& member : roster.members) {
    auto known = stores_.claims.get(member.claim);
    if (!known || known->metadata.uid != member.uid || known->metadata.deleting() || gangNamedBy(*known) != id)
      return std::nullopt;
    members.here.push_back(std::move(known));
  }
  return members;
}

ClaimSync::GangMembers ClaimSync::membersByAnnotation(const core::ObjectKey& gang) const {
  GangMembers members;
  const auto roster = waiting_.rosters.of(gang);
  std::vector<Candidate> all;
  for (auto& claim : stores_.claimsOfGang(gang.namespace_, gang.name)) {
    const auto named = v1alpha::gangOf(claim->metadata.annotations);
    if (!named || claim->metadata.deleting()) continue;
    const auto device = deviceOf(*claim);
    // A member whose pod may not be scheduled counts only if it has its device already.
    if (!device && obstacleOf(stores_, *claim, classWaits(*claim))) continue;
    const auto& now = claim->status.phase;
    const bool commits =
        (device && device->status.phase == phase::kBound) || now == phase::kBound || now == phase::kLost;
    const bool decided = device || cluster_.decidedInGang(claim->metadata.uid);
    const bool chosen = roster && roster->uids.contains(claim->metadata.uid);
    const int rank = commits ? 0 : decided ? 1 : chosen ? 2 : 3;
    all.push_back({std::move(claim), *named, rank});
  }
  if (all.empty()) return members;
  const auto first = std::min_element(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(!a.isDecided(), ageOf(a.claim->metadata)) < std::pair(!b.isDecided(), ageOf(b.claim->metadata));
  });
  members.definer = first->claim;
  members.gang = first->gang;
  ClaimPtr differs;
  std::erase_if(all, [&](const Candidate& each) {
    if (each.isDecided() || each.gang == members.gang) return false;
    if (!differs || isOlder(each.claim, differs)) differs = each.claim;
    return true;
  });
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(a.rank, ageOf(a.claim->metadata)) < std::pair(b.rank, ageOf(b.claim->metadata));
  });
  auto& here = members.here;
  for (std::size_t i = 0; i < std::min(all.size(), members.gang.size); ++i) here.push_back(std::move(all[i].claim));
  std::sort(here.begin(), here.end(), isOlder);
  members.full = here.size() == members.gang.size;
  if (members.full) return members;
  members.lacks = hereText(here.size(), "members", members.gang) +
                  (differs ? "; " + differsText(differs, members.gang) : std::string());
  members.gone = here.size() + succeededMembers(stores_, gang.namespace_, members.gang) >= members.gang.size;
  // An earlier gang of that name may have left such pods: only beside a pod that was let go do they make it whole.
  members.missing = !members.gone || !letGo(members);
  if (!members.missing) members.lacks.clear();
  return members;
}

ClaimSync::GangMembers ClaimSync::membersOfGroup(const std::string& namespace_, const v1alpha::Gang& gang) const {
  GangMembers members;
  members.gang = gang;
  auto pods = podsOfGroup(stores_, namespace_, gang.name, [this](const auto& each) {
    return deviceOf(each) != nullptr || cluster_.decidedInGang(each.metadata.uid).has_value();
  });
  const auto first = std::min(pods.size(), gang.size);
  for (std::size_t i = 0; i < first; ++i) {
    const auto& pod = pods[i];
    members.here.insert(members.here.end(), pod.claims.begin(), pod.claims.end());
    members.gone = members.gone || pod.pod->phase == "Succeeded";
    if (pod.whole || !members.lacks.empty()) continue;
    members.lacks = notMadeText(pod);
    members.missing = members.looksAgain = true;
  }
  std::move(pods.begin() + static_cast<std::ptrdiff_t>(first), pods.end(), std::back_inserter(members.furtherPods));
  members.full = first == gang.size;
  if (!members.full) {
    members.missing = true;
    members.lacks = hereText(first, "pods", gang);
  }
  std::sort(members.here.begin(), members.here.end(), isOlder);
  members.here.erase(std::unique(members.here.begin(), members.here.end()), members.here.end());  // pods may share one
  if (members.here.size() > v1alpha::Gang::kMost)
    members.lacks = gang.text() + " has " + std::to_string(members.here.size()) + " claims, and " +
                    std::to_string(v1alpha::Gang::kMost) + " at most are decided together";
  return members;
}

ClaimSync::GangMembers ClaimSync::withOpen(GangMembers members) const {
  for (const auto& each : members.here) {
    const auto device = deviceOf(*each);
    if (device && (device->metadata.deleting() || device->status.phase == phase::kFailed)) {
      members.oneLeaves = true;  // it is decided anew once that is gone
      continue;
    }
    if (device && members.standsOn.empty()) members.standsOn = device->spec.nodeName;
    if (!device && !cluster_.decidedInGang(each->metadata.uid)) members.open.push_back(each);
  }
  return members;
}

bool ClaimSync::letGo(const GangMembers& members) const {
  return std::any_of(members.here.begin(), members.here.end(), [this](const auto& each) { return wasLetGo(*each); });
}

bool ClaimSync::gangIsBound(const cache::Claim& claim) const {
  if (!inGang(claim) || v1alpha::gangMistake(claim.metadata.annotations)) return true;
  const auto gang = gangOf(stores_, claim);
  if (!gang) return false;
  const auto roster = waiting_.rosters.of(gangIdOf(claim.metadata.namespace_, *gang));
  if (roster && roster->full && !roster->bound) return false;  // wakeGang() brings its pods back
  const auto members = membersOf(claim, *gang);
  return allBound(members.here) && (!members.missing || members.gone || letGo(members));
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
  const bool whole = !members.missing || members.gone || letGo(members);
  roster.bound = whole && allBound(members.here);
  roster.hasCards = !members.missing && std::all_of(members.here.begin(), members.here.end(),
                                                    [this](const auto& each) { return hasItsCards(*each); });
  return roster;
}

}  // namespace egpu::reconcile
