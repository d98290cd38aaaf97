#include "controller/reconcile/gang/gang_choice.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/retry/unschedulable_queue.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;

namespace {

bool isOlderMember(const GangChoice::ClaimPtr& a, const GangChoice::ClaimPtr& b) {
  return ageOf(a->metadata) < ageOf(b->metadata);
}

/// "2 of 3 members of gang train are here".
std::string hereText(std::size_t here, const char* what, const v1alpha::Gang& gang) {
  return std::to_string(here) + " of " + std::to_string(gang.size) + " " + what + " of " + gang.text() +
         (here == 1 ? " is here" : " are here");
}

std::string differsText(const GangChoice::ClaimPtr& claim, const v1alpha::Gang& gang) {
  return "claim " + claim->metadata.name + " sets a different size or topology for " + gang.text();
}

/// A claim that names a gang, and its rank for membership.
struct MemberCandidate {
  GangChoice::ClaimPtr claim;
  v1alpha::Gang gang;
  int rank = 3;  ///< 0: committed; 1: decided; 2: chosen by the last step; 3: other
  bool isDecided() const { return rank <= 1; }
};

}  // namespace

std::string notMadeText(const GroupPod& pod) { return "claims of pod " + pod.pod->metadata.name + " are not made yet"; }

GangChoice chooseByAnnotation(const cache::Stores& stores, const allocator::Allocator& cluster,
                              const core::ObjectKey& gang, const GangMemory& memory) {
  GangChoice members;
  std::vector<MemberCandidate> all;
  for (auto& claim : stores.claimsOfGang(gang.namespace_, gang.name)) {
    const auto named = v1alpha::gangOf(claim->metadata.annotations);
    if (!named || claim->metadata.deleting()) continue;
    const auto device = deviceOf(stores, *claim);
    // A claim whose pod may not be scheduled counts only if it has its device already.
    if (!device && obstacleOf(stores, *claim, hasWaitForFirstConsumer(stores, *claim))) continue;
    const auto& now = claim->status.phase;
    const bool commits =
        (device && device->status.phase == phase::kBound) || now == phase::kBound || now == phase::kLost;
    const bool decided = device || cluster.decidedInGang(claim->metadata.uid);
    const bool chosen = memory.wasChosen && memory.wasChosen(claim->metadata.uid);
    const int rank = commits ? 0 : decided ? 1 : chosen ? 2 : 3;
    all.push_back({std::move(claim), *named, rank});
  }
  if (all.empty()) return members;
  const auto first = std::min_element(all.begin(), all.end(), [](const MemberCandidate& a, const MemberCandidate& b) {
    return std::pair(!a.isDecided(), ageOf(a.claim->metadata)) < std::pair(!b.isDecided(), ageOf(b.claim->metadata));
  });
  members.definer = first->claim;
  members.gang = first->gang;
  GangChoice::ClaimPtr differs;
  std::erase_if(all, [&](const MemberCandidate& each) {
    if (each.isDecided() || each.gang == members.gang) return false;
    if (!differs || isOlderMember(each.claim, differs)) differs = each.claim;
    return true;
  });
  std::sort(all.begin(), all.end(), [](const MemberCandidate& a, const MemberCandidate& b) {
    return std::pair(a.rank, ageOf(a.claim->metadata)) < std::pair(b.rank, ageOf(b.claim->metadata));
  });
  auto& here = members.here;
  for (std::size_t i = 0; i < std::min(all.size(), members.gang.size); ++i) here.push_back(std::move(all[i].claim));
  std::sort(here.begin(), here.end(), isOlderMember);
  members.full = here.size() == members.gang.size;
  if (members.full) return members;
  members.lacks = hereText(here.size(), "members", members.gang) +
                  (differs ? "; " + differsText(differs, members.gang) : std::string());
  members.gone = here.size() + succeededMembers(stores, gang.namespace_, members.gang) >= members.gang.size;
  // Such pods may be left from an earlier gang of that name: they count only beside a pod that has passed its gate.
  members.missing = !members.gone || std::none_of(here.begin(), here.end(),
                                                  [&](const auto& each) { return memory.mayHaveRunningPod(*each); });
  if (!members.missing) members.lacks.clear();
  return members;
}

GangChoice chooseOfGroup(const cache::Stores& stores, const allocator::Allocator& cluster,
                         const std::string& namespace_, const v1alpha::Gang& gang) {
  GangChoice members;
  members.gang = gang;
  auto pods = podsOfGroup(stores, namespace_, gang.name, [&](const auto& each) {
    return deviceOf(stores, each) != nullptr || cluster.decidedInGang(each.metadata.uid).has_value();
  });
  const auto first = std::min(pods.size(), gang.size);
  for (std::size_t i = 0; i < first; ++i) {
    const auto& pod = pods[i];
    members.here.insert(members.here.end(), pod.claims.begin(), pod.claims.end());
    members.gone = members.gone || pod.pod->phase == "Succeeded";
    if (pod.whole || !members.lacks.empty()) continue;
    members.lacks = notMadeText(pod);
    members.missing = members.isEvaluatedAgain = true;
  }
  std::move(pods.begin() + static_cast<std::ptrdiff_t>(first), pods.end(), std::back_inserter(members.furtherPods));
  members.full = first == gang.size;
  if (!members.full) {
    members.missing = true;
    members.lacks = hereText(first, "pods", gang);
  }
  std::sort(members.here.begin(), members.here.end(), isOlderMember);
  members.here.erase(std::unique(members.here.begin(), members.here.end()), members.here.end());  // pods may share one
  if (members.here.size() > v1alpha::Gang::kMax)
    members.lacks = gang.text() + " has " + std::to_string(members.here.size()) + " claims, more than the limit of " +
                    std::to_string(v1alpha::Gang::kMax);
  return members;
}

OpenMembers openMembersOf(const cache::Stores& stores, const allocator::Allocator& cluster,
                          const std::vector<GangChoice::ClaimPtr>& here) {
  OpenMembers members;
  for (const auto& each : here) {
    const auto device = deviceOf(stores, *each);
    if (device && (device->metadata.deleting() || device->status.phase == phase::kFailed)) {
      if (!members.leaves) members.leaves = each;
      continue;
    }
    if (device && members.standsOn.empty()) members.standsOn = device->spec.nodeName;
    if (!device && !cluster.decidedInGang(each->metadata.uid)) members.open.push_back(each);
  }
  return members;
}

std::string decidedByItself(const cache::Claim& claim, bool takesDevice) {
  if (takesDevice) return "a claim with spec.elasticGPUName can't be a member of a gang";
  if (!claim.spec.firstAvailable.empty()) return "a member of a gang can't have spec.firstAvailable";
  return claim.spec.adminAccess ? "a member of a gang can't have spec.adminAccess" : "";
}

std::vector<scheduler::TopologyGroup> topologyGroups(const cache::Stores& stores, const std::string& label,
                                                     const std::string& only) {
  std::map<std::string, scheduler::TopologyGroup> groups;
  stores.nodes.forEach([&](const auto& node) {
    const auto it = node->metadata.labels.find(label);
    if (it == node->metadata.labels.end()) return;
    groups[it->second].value = it->second;
    groups[it->second].nodes.push_back(node->metadata.name);
  });
  const auto standing = only.empty() ? nullptr : stores.nodes.get({"", only});
  std::vector<scheduler::TopologyGroup> all;
  for (auto& [value, group] : groups)
    if (only.empty() || (standing && standing->metadata.label(label) == value)) all.push_back(std::move(group));
  return all;
}

}  // namespace egpu::reconcile
