#include "controller/whatif/answer/gang_to_let_in.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/claim/resolve.h"
#include "controller/reconcile/class/class.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/gang/gang_choice.h"
#include "controller/reconcile/pod/node_fit/resources.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/priority/priority.h"
#include "controller/scheduler/quota/on_a_copy.h"
#include "controller/whatif/answer/snapshot.h"

namespace egpu::whatif {

namespace {

namespace keys = v1alpha::keys;
using cache::Stores;
using ClaimPtr = cache::Store<cache::Claim>::Ptr;
using PodPtr = cache::Store<core::Pod>::Ptr;
using reconcile::GangChoice;

constexpr std::size_t kMaxNamed = 8;

bool has(const std::vector<ClaimPtr>& claims, const cache::Claim& claim) {
  return std::any_of(claims.begin(), claims.end(),
                     [&](const auto& each) { return each->metadata.uid == claim.metadata.uid; });
}

bool isBound(const ClaimPtr& claim) { return claim->status.phase == keys::phase::kBound; }

/// Returns why a claim does not count as a member: its deletion, or its pod. Empty: it counts.
std::string notCounted(const Stores& stores, const cache::Claim& claim) {
  if (claim.metadata.deleting()) return "is being deleted";
  if (reconcile::deviceOf(stores, claim)) return {};
  const auto cls = reconcile::classOf(stores, claim, nullptr);
  return reconcile::obstacleOf(stores, claim, cls && cls->bindingMode == "WaitForFirstConsumer").message;
}

/// "; here are a, b; claim c: waits for gates": the members of an incomplete gang, and the claims that do not count.
std::string membersText(const Stores& stores, const core::ObjectKey& id, const GangChoice& choice) {
  std::string text;
  const auto& here = choice.here;
  for (std::size_t i = 0; i < std::min(here.size(), kMaxNamed); ++i)
    text += (i == 0 ? "; here: " : ", ") + here[i]->metadata.name;
  if (here.size() > kMaxNamed) text += " and " + std::to_string(here.size() - kMaxNamed) + " more";
  std::size_t named = 0;
  for (const auto& claim : stores.claimsOfGang(id.namespace_, id.name)) {
    const auto why = has(here, *claim) ? std::string() : notCounted(stores, *claim);
    if (!why.empty() && named++ < kMaxNamed) text += "; claim " + claim->metadata.name + " does not count: " + why;
  }
  return text;
}

/// Returns why a claim is not among the chosen members.
std::string notChosen(const Stores& stores, const cache::Claim& claim, const v1alpha::Gang& gang,
                      const GangChoice& choice) {
  if (gang.podGroup) return choice.lacks.empty() ? "no pod of " + gang.text() + " uses it" : choice.lacks;
  if (const auto why = notCounted(stores, claim); !why.empty()) return "claim " + claim.metadata.name + ": " + why;
  if (choice.definer && !(choice.gang == gang))
    return "claim " + choice.definer->metadata.name + " sets a different size or topology for " + gang.text();
  return gang.text() + " has its " + std::to_string(choice.gang.size) + " members already";
}

class OpenMemberReader {
 public:
  OpenMemberReader(const Stores& stores, GangToLetIn& gang, base::Clock::Wall wall)
      : stores_(stores), gang_(gang), wall_(wall) {}

  /// Adds the next open member. Returns why the gang can't be decided; empty: the member was added.
  std::string add(const ClaimPtr& claim) {
    auto record = recordOf(stores_, *claim, true);
    if (!record.request) return record.why;
    if (auto apart = reconcile::decidedByItself(*claim, false); !apart.empty()) return apart;
    const auto cls = reconcile::classOf(stores_, *claim, nullptr);
    if (!cls) return "its class is gone";
    const auto* ready = reconcile::findCondition(cls->conditions, reconcile::kReady);
    if (ready != nullptr && ready->status == "False") waits(*claim, "its class is not ready: " + ready->message);
    scheduler::GangMember member{*record.request};
    member.suits = std::move(record.suits);
    member.claim = scheduler::quotaClaim(record.name, record.className);
    const bool waitsForPod = reconcile::isPlacedWithPod(stores_, *claim, *cls);
    const auto pod = podOf(*claim);
    if (!pod && waitsForPod) waits(*claim, "it waits for the first pod that uses it");
    if (!pod) member.kind = kinds_.try_emplace(record.className, kinds_.size()).first->second;
    if (pod)
      if (auto why = goWith(pod, member, waitsForPod); !why.empty()) return why;
    pods_.push_back(pod);
    auto order = reconcile::queueOrderOf(*claim, reconcile::priorityOf(stores_, *claim).value, wall_);
    gang_.asks.push_back({claim->metadata.uid, record.name, member.request, {}, record.className, order});
    gang_.members.push_back(std::move(member));
    return {};
  }

  /// Gives all members one place in the queue order: the lowest priority, and the earliest creation.
  void useGroupOrder() {
    if (gang_.asks.empty()) return;
    auto order = gang_.asks.front().order;
    for (const auto& ask : gang_.asks) {
      order.priority = std::min(order.priority, ask.order.priority);
      order.since = std::min(order.since, ask.order.since);
    }
    for (auto& ask : gang_.asks) ask.order = order;
    for (std::size_t i = 0; i < pods_.size(); ++i) {
      auto& member = gang_.members[i];
      if (!pods_[i] || member.with || !pods_[i]->nodeName.empty()) continue;
      member.hasCapacity = [pods = Beside{stores_, pods_}, i](std::string_view node,
                                                              std::span<const std::size_t> placed) {
        return pods.hasCapacity(i, node, placed);
      };
    }
  }

 private:
  /// Capacity of a node for a pod beside the pods of members that were placed there before.
  struct Beside {
    const Stores& stores;
    std::vector<PodPtr> pods;

    bool hasCapacity(std::size_t member, std::string_view name, std::span<const std::size_t> placed) const {
      const auto& pod = *pods[member];
      const auto node = placed.empty() ? nullptr : stores.nodes.get({"", std::string(name)});
      if (!node) return true;  // the member's predicate has checked the pod alone
      auto taken = stores.usage.of(name, core::keyOf(pod.metadata));
      std::vector<const core::Pod*> counted = {&pod};
      for (const auto i : placed) {
        const auto* other = pods[i].get();
        if (other == nullptr || !other->nodeName.empty() ||
            std::find(counted.begin(), counted.end(), other) != counted.end())
          continue;
        counted.push_back(other);
        taken.requests += cache::requestsOf(*other);
        ++taken.pods;
      }
      return reconcile::shortOf(cache::requestsOf(pod), taken, *node).empty();
    }
  };

  void waits(const cache::Claim& claim, const std::string& why) {
    if (gang_.waits.empty()) gang_.waits = "claim " + claim.metadata.name + " of " + gang_.gang.text() + ": " + why;
  }

  /// Returns the pod that the claim is for: a pod on a node, otherwise the oldest. Null: the claim has no pod.
  PodPtr podOf(const cache::Claim& claim) const {
    auto pods = stores_.podsOfClaim(core::keyOf(claim.metadata));
    std::erase_if(pods, [this](const auto& pod) { return !reconcile::isConsumer(stores_, *pod); });
    const auto first = std::min_element(pods.begin(), pods.end(), [](const auto& a, const auto& b) {
      return std::pair(a->nodeName.empty(), reconcile::ageOf(a->metadata)) <
             std::pair(b->nodeName.empty(), reconcile::ageOf(b->metadata));
    });
    return first == pods.end() ? nullptr : *first;
  }

  /// Constrains the member to the node of its pod's other claims, because all claims of a pod must be on one node.
  std::string goWith(const PodPtr& pod, scheduler::GangMember& member, bool waitsForPod) {
    if (const auto first = firstOfPod_.find(pod->metadata.uid); first != firstOfPod_.end()) {
      member.with = first->second;
      return {};
    }
    firstOfPod_[pod->metadata.uid] = gang_.members.size();
    std::string node = waitsForPod ? pod->nodeName : std::string();
    for (const auto& name : v1alpha::claimNames(*pod)) {
      const auto claim = stores_.claims.get({pod->metadata.namespace_, name});
      const auto device = claim ? reconcile::deviceOf(stores_, *claim) : nullptr;
      if (!device) continue;
      if (device->metadata.deleting() || (!node.empty() && device->spec.nodeName != node))
        return "claims of pod " + pod->metadata.name + " are on several nodes, or are being moved";
      node = device->spec.nodeName;
    }
    if (!node.empty())
      member.suits = [node, suits = std::move(member.suits)](std::string_view name) {
        return name == node && (!suits || suits(name));
      };
    return {};
  }

  const Stores& stores_;
  GangToLetIn& gang_;
  const base::Clock::Wall wall_;
  std::vector<PodPtr> pods_;                       ///< one per member; null: the member has no pod
  std::map<std::string, std::size_t> firstOfPod_;  ///< by the pod's uid
  std::map<std::string, std::size_t> kinds_;       ///< by class
};

/// Returns the gang that the claim names. If none is known, found.why contains the reason.
std::optional<v1alpha::Gang> gangNamed(const Stores& stores, const cache::Claim& claim, GangToLetIn& found) {
  if (const auto mistake = v1alpha::gangMistake(claim.metadata.annotations)) {
    found.gang.name = claim.metadata.annotation(keys::kGangAnnotation);
    found.why = mistake->field + ": " + mistake->message;
    return std::nullopt;
  }
  auto gang = reconcile::gangOf(stores, claim);
  if (gang) return gang;
  found.gang.name = claim.metadata.annotation(keys::kGangPodGroupAnnotation);
  found.gang.podGroup = true;
  found.why = "there is no PodGroup " + found.gang.name + " yet";
  return std::nullopt;
}

GangChoice choose(const Stores& stores, const allocator::Allocator& cluster, const core::ObjectKey& id,
                  const v1alpha::Gang& gang) {
  if (gang.podGroup) return reconcile::chooseOfGroup(stores, cluster, id.namespace_, gang);
  const auto mayHaveRunningPod = [&stores](const cache::Claim& member) {
    const auto pods = stores.podsOfClaim(core::keyOf(member.metadata));
    return std::any_of(pods.begin(), pods.end(),
                       [](const auto& pod) { return reconcile::alive(*pod) && !reconcile::gated(*pod); });
  };
  return reconcile::chooseByAnnotation(stores, cluster, id, {{}, mayHaveRunningPod});
}

/// Returns the members that are decided together with the claim: those of the gang, or for a claim of a PodGroup's
/// further pod those of that pod. If they can't be decided now, found.why contains the reason.
std::vector<ClaimPtr> membersWith(const Stores& stores, const cache::Claim& claim, const core::ObjectKey& id,
                                  const v1alpha::Gang& gang, const GangChoice& choice, GangToLetIn& found) {
  const auto& here = choice.here;
  if (has(here, claim)) {
    found.why = choice.lacks;
    if (!found.why.empty() && !gang.podGroup) found.why += membersText(stores, id, choice);
    return here;
  }
  const auto own = std::find_if(choice.furtherPods.begin(), choice.furtherPods.end(),
                                [&](const auto& pod) { return has(pod.claims, claim); });
  if (own == choice.furtherPods.end()) {
    found.why = notChosen(stores, claim, gang, choice);
    return {};
  }
  if (!choice.lacks.empty() || !std::all_of(here.begin(), here.end(), isBound))
    found.why = "the first " + std::to_string(gang.size) + " pods of " + gang.text() + " are placed before it";
  else if (!own->whole)
    found.why = reconcile::notMadeText(*own);
  return own->claims;
}

}  // namespace

GangToLetIn gangToLetIn(const Stores& stores, const allocator::Allocator& cluster, const cache::Claim& claim,
                        base::Clock::Wall wall) {
  GangToLetIn found;
  found.phase = keys::phase::kPending;
  const auto gang = gangNamed(stores, claim, found);
  if (!gang) return found;
  const auto id = reconcile::gangIdOf(claim.metadata.namespace_, *gang);
  const auto choice = choose(stores, cluster, id, *gang);
  found.gang = choice.gang.size == 0 ? *gang : choice.gang;
  const auto here = membersWith(stores, claim, id, *gang, choice, found);
  if (!found.why.empty()) return found;
  const auto members = reconcile::openMembersOf(stores, cluster, here);
  if (members.leaves) {
    found.why = "claim " + members.leaves->metadata.name +
                " is being moved off its device; it is scheduled again once that is gone";
    return found;
  }
  if (std::all_of(here.begin(), here.end(), isBound)) found.phase = keys::phase::kBound;
  found.decided = here.size() - members.open.size();
  if (!found.gang.topology.empty()) {
    const auto standsOn = reconcile::openMembersOf(stores, cluster, choice.here).standsOn;
    found.groups = reconcile::topologyGroups(stores, found.gang.topology, standsOn);
  }
  OpenMemberReader reader(stores, found, wall);
  for (const auto& member : members.open) {
    if (const auto why = reader.add(member); !why.empty()) {
      found.why = "claim " + member->metadata.name + ": " + why;
      return found;
    }
    found.open.push_back(core::keyOf(member->metadata).str());
  }
  reader.useGroupOrder();
  return found;
}

}  // namespace egpu::whatif
