#include "controller/reconcile/gang/gang_pods.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "api/v1alpha/pod_claims.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/pod/node_fit/resources.h"
#include "controller/reconcile/pod/schedulability.h"

namespace egpu::reconcile {

namespace {

/// Reduces a pod to the fields that decide where it can go.
core::Pod asksOf(const core::Pod& pod) {
  core::Pod asks = pod;
  asks.metadata = {};
  asks.resourceClaims.clear();
  asks.conditions.clear();
  asks.phase.clear();
  return asks;
}

}  // namespace

GangPods::PodPtr GangPods::podOf(const cache::Claim& claim) const {
  auto pods = stores_.podsOfClaim(core::keyOf(claim.metadata));
  std::erase_if(pods, [this](const auto& pod) { return !isConsumer(stores_, *pod); });
  const auto first = std::min_element(pods.begin(), pods.end(), [](const auto& a, const auto& b) {
    return std::pair(a->nodeName.empty(), ageOf(a->metadata)) < std::pair(b->nodeName.empty(), ageOf(b->metadata));
  });
  return first == pods.end() ? nullptr : *first;
}

std::optional<std::string> GangPods::nodeOf(const core::Pod& pod) const {
  std::string node = pod.nodeName;
  for (const auto& name : v1alpha::claimNames(pod)) {
    const auto claim = stores_.claims.get({pod.metadata.namespace_, name});
    if (!claim) continue;
    for (const auto& device : stores_.devicesOfClaim(claim->metadata.uid)) {
      if (device->metadata.deleting() || (!node.empty() && device->spec.nodeName != node)) return std::nullopt;
      node = device->spec.nodeName;
    }
  }
  return node;
}

base::Result<std::string> GangPods::add(const ClaimPtr& claim, const std::optional<scheduler::NodePredicate>& tolerated,
                                        std::stop_token stop) {
  Member member{claim, podOf(*claim), {}, nullptr, tolerated.value_or(nullptr), {}};
  if (!member.pod && !tolerated) return "claim " + claim->metadata.name + " has no pod yet";
  if (member.pod && v1alpha::pendingClaim(*member.pod))
    return "claims of pod " + member.pod->metadata.name + " are not made yet";
  if (member.pod) {
    const auto [known, first] = firstOfPod_.try_emplace(member.pod->metadata.uid, members_.size());
    if (!first) member.with = known->second;
    const auto node = nodeOf(*member.pod);
    if (!node) return "claims of pod " + member.pod->metadata.name + " are on several nodes, or are being moved";
    member.onlyNode = *node;
    const bool lacksAlike = member.with && members_[*member.with].alike == nullptr;
    if (!tolerated && (!member.with || lacksAlike)) {
      auto& chooses = member.with ? members_[*member.with] : member;
      if (auto failed = choose(chooses, stop); !failed.ok()) return failed;
    }
  }
  members_.push_back(std::move(member));
  return std::string();
}

base::Status GangPods::choose(Member& member, std::stop_token stop) {
  const auto& pod = *member.pod;
  if (pod.nodeName.empty())
    stores_.usage.unplan(core::keyOf(pod.metadata));  // until promise() counts it on a node again
  auto asks = asksOf(pod);
  for (const auto& known : alike_)
    if (known->onlyNode == member.onlyNode && known->pod->metadata.namespace_ == pod.metadata.namespace_ &&
        known->asks == asks) {
      member.alike = known.get();
      return {};
    }
  auto volumes = volumes_.of(pod, std::move(stop));
  if (!volumes.ok()) return volumes.status();
  auto& made = alike_.emplace_back(std::make_unique<Alike>());
  *made = {member.pod, std::move(asks), member.onlyNode, cache::requestsOf(pod), nullptr};
  made->nodes = std::make_unique<NodeChoice>(stores_, *made->pod, std::move(*volumes), member.onlyNode, nullptr);
  member.alike = made.get();
  return {};
}

bool GangPods::mayGoTo(const Member& member, std::string_view node) const {
  return (member.onlyNode.empty() || node == member.onlyNode) &&
         !nodeBackoff_.rejected(member.claim->metadata.uid, node) && (!member.tolerated || member.tolerated(node));
}

bool GangPods::hasCapacity(const Member& member, std::string_view node, std::span<const std::size_t> placed,
                           bool onceFree) const {
  std::set<std::string_view> counted{member.pod->metadata.uid};
  cache::NodeUsage::Sum others;
  for (const auto i : placed) {
    const auto& other = members_[i];
    if (!other.pod || !other.pod->nodeName.empty() || !counted.insert(other.pod->metadata.uid).second) continue;
    others.requests += other.alike != nullptr ? other.alike->requests : cache::requestsOf(*other.pod);
    ++others.pods;
  }
  const auto object =
      others.pods > 0 && member.pod->nodeName.empty() ? stores_.nodes.get({"", std::string(node)}) : nullptr;
  if (!object) return true;  // `suits` has checked the member's pod alone
  const auto self = core::keyOf(member.pod->metadata);
  auto taken = onceFree ? stores_.usage.ofLastingPods(node, self) : stores_.usage.of(node, self);
  taken.requests += others.requests;
  taken.pods += others.pods;
  return shortOf(member.alike->requests, taken, *object).empty();
}

std::vector<allocator::Allocator::GangMemberConstraints> GangPods::places() {
  for (const auto& alike : alike_) alike->nodes->evaluateAll();  // here, as no other decision is blocked
  std::vector<allocator::Allocator::GangMemberConstraints> places;
  using Kind = std::tuple<const Alike*, std::string, std::string, std::string>;
  std::map<Kind, std::size_t> kinds;
  for (const auto& member : members_) {
    auto& place = places.emplace_back();
    place.with = member.with;
    // All values that `suits` and hasCapacity() depend on, except the pod's own name, under which nothing counts yet.
    const auto& uid = member.claim->metadata.uid;
    const Kind kind{member.alike, member.onlyNode, member.tolerated ? member.claim->spec.className : std::string(),
                    nodeBackoff_.anyRejected(uid) ? uid : std::string()};
    place.kind = kinds.try_emplace(kind, kinds.size()).first->second;
    place.suits = [this, &member](std::string_view node) {
      return mayGoTo(member, node) && (member.alike == nullptr || member.alike->nodes->suits(node));
    };
    if (member.alike == nullptr) continue;
    place.hasCapacity = [this, &member](std::string_view node, std::span<const std::size_t> placed) {
      return hasCapacity(member, node, placed, false);
    };
    place.suitsOnceFree = [this, &member](std::string_view node) {
      return mayGoTo(member, node) && member.alike->nodes->suitsOnceFree(node);
    };
    place.hasCapacityOnceFree = [this, &member](std::string_view node, std::span<const std::size_t> placed) {
      return hasCapacity(member, node, placed, true);
    };
  }
  return places;
}

bool GangPods::promise(const std::vector<scheduler::Decision>& decisions) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const auto& member = members_[i];
    if (member.alike == nullptr || !member.pod->nodeName.empty()) continue;
    const auto node = stores_.nodes.get({"", decisions[i].node});
    const bool fits = !node || stores_.usage.plan(*member.pod, decisions[i].node, [&](const auto& taken) {
      return shortOf(member.alike->requests, taken, *node).empty();
    });
    if (fits) continue;
    for (std::size_t k = 0; k < i; ++k)
      if (members_[k].alike != nullptr) stores_.usage.unplan(core::keyOf(members_[k].pod->metadata));
    return false;
  }
  return true;
}

std::string GangPods::whyUnsuited(std::size_t member, std::string_view node) const {
  const auto& one = members_[member];
  if (!one.onlyNode.empty() && node != one.onlyNode) return "not node " + one.onlyNode + ", where its pod has to be";
  if (nodeBackoff_.rejected(one.claim->metadata.uid, node)) return std::string(kNodeRejected);
  return one.tolerated && !one.tolerated(node) ? std::string(kUntolerated) : std::string();
}

std::string GangPods::text(std::size_t member) const {
  const auto& one = members_[member].with ? members_[*members_[member].with] : members_[member];
  const auto why = one.alike == nullptr ? std::string() : one.alike->nodes->text();
  return why.empty() ? why : "nodes that don't suit pod " + one.pod->metadata.name + ": " + why;
}

bool GangPods::anyShort() const {
  return std::any_of(alike_.begin(), alike_.end(), [](const auto& alike) { return alike->nodes->anyShort(); });
}

}  // namespace egpu::reconcile
