// Which nodes ClusterView keeps for claims and gangs that have waited for long.
#include <algorithm>
#include <utility>

#include "controller/base/timestamp.h"
#include "controller/cache/cluster_view.h"

namespace egpu::cache {
namespace {

constexpr int64_t kLookEvery = 1;   ///< seconds between two looks for a node to keep: each is a scan of the cluster
constexpr int64_t kLookAgain = 15;  ///< the same for a claim that has one
constexpr int64_t kLookAfterVain = 300;  ///< the same for one that found none: others have their looks meanwhile

/// A gang that is not whole by then has its turn again after as long: many nodes stand idle for it.
constexpr int64_t kForGangAtMost = 86'400;

}  // namespace

void ClusterView::noteAge(const Gpu& device) {
  heldSince_[device.metadata.uid] = base::unixSeconds(device.metadata.creationTimestamp);
}

bool ClusterView::waitsForLong(const std::vector<Ask>& asks) const {
  return std::all_of(asks.begin(), asks.end(), [this](const Ask& ask) {
    return ask.first && !ask.request.observes && ask.turn.now - ask.turn.waitingSince >= keeping_.after;
  });
}

bool ClusterView::makePlace(const scheduler::Waiter& waiter) {
  const auto most = std::min(keeping_.most,
                             std::max<std::size_t>(1, cluster_.nodeCount() / std::max<std::size_t>(1, keeping_.share)));
  std::vector<decltype(keptNodes_)::iterator> others;
  for (auto it = keptNodes_.begin(); it != keptNodes_.end(); ++it)
    if (!it->second.ofGang) others.push_back(it);
  if (others.size() < most) return true;
  const auto last = *std::max_element(others.begin(), others.end(), [](const auto& a, const auto& b) {
    return scheduler::comesBefore(a->second.owner, b->second.owner);
  });
  if (!scheduler::comesBefore(waiter, last->second.owner)) return false;
  keptNodes_.erase(last);
  grew_ = true;
  return true;
}

std::string ClusterView::nodeToKeep(const std::vector<Ask>& asks, const scheduler::NodePredicate& suits,
                                    const scheduler::KeptBefore& before) const {
  const auto now = asks.front().turn.now;
  const scheduler::HeldSince heldSince = [&](std::string_view uid) {
    const auto known = heldSince_.find(uid);
    return known == heldSince_.end() ? now : known->second;
  };
  if (asks.size() == 1) {
    auto waiter = waiterOf(asks.front());
    waiter.suits = suits;
    waiter.since = asks.front().turn.waitingSince;
    std::vector<scheduler::Kept> kept;
    for (const auto& node : before.nodes) kept.push_back({waiter.name, node, before.moves});
    kept = scheduler::keepNodes(cluster_, {waiter}, now, heldSince, kept, {keeping_.after, 1, 1});
    return kept.empty() ? std::string() : kept.front().node;
  }
  std::vector<scheduler::GangMember> members;
  for (const auto& ask : asks) {
    members.push_back({ask.request, suits});
    if (members.size() > 1) members.back().with = 0;
  }
  const auto kept = scheduler::keepTogether(cluster_, members, nullptr, now, heldSince, before, 1);
  return kept.empty() ? std::string() : kept.front().node;
}

bool ClusterView::looksNow(const std::vector<Ask>& asks) {
  const auto& ask = asks.front();
  const auto now = ask.turn.now;
  if (!waitsForLong(asks) || !allStand(asks)) return false;
  for (const auto& each : asks)
    if (const auto own = keptNodes_.find(each.claimUid); own != keptNodes_.end())
      return now - own->second.lookedAt >= kLookAgain;
  std::erase_if(inVain_, [now](const auto& each) { return now - each.second >= kLookAfterVain; });
  return now - keptLast_ >= kLookEvery && !inVain_.contains(ask.claimUid);
}

void ClusterView::looked(const Ask& ask, bool found) {
  keptLast_ = ask.turn.now;
  if (!found) inVain_[ask.claimUid] = ask.turn.now;
}

void ClusterView::keepNode(const std::vector<Ask>& asks, const scheduler::NodePredicate& suits) {
  if (!looksNow(asks)) return;
  const auto known =
      std::find_if(asks.begin(), asks.end(), [this](const Ask& each) { return keptNodes_.contains(each.claimUid); });
  const auto& ask = known == asks.end() ? asks.front() : *known;
  auto owner = waiterOf(ask);
  const auto before = keptFor(asks);
  if (before.nodes.empty() && !makePlace(owner)) return;
  const scheduler::NodePredicate open = [&](std::string_view node) {
    for (const auto& [uid, kept] : keptNodes_)
      if (uid != ask.claimUid && kept.node == node) return false;
    return !suits || suits(node);
  };
  auto node = nodeToKeep(asks, open, before);
  looked(ask, !node.empty());
  if (node.empty()) return keepNoNode(ask.claimUid);
  owner.request = nullptr;  // it does not outlive the decision
  const bool moves = !before.nodes.empty() && before.nodes.front() != node;
  keptNodes_[ask.claimUid] = {std::move(owner), std::move(node), ask.turn.now, before.moves + (moves ? 1 : 0)};
}

bool ClusterView::allStand(const std::vector<Ask>& asks) const {
  return std::all_of(asks.begin(), asks.end(), [this](const Ask& ask) {
    const auto claim = stores_.claims.get(core::ObjectKey::of(ask.claim));
    return claim && claim->metadata.uid == ask.claimUid;
  });
}

scheduler::KeptBefore ClusterView::keptFor(const std::vector<Ask>& asks) const {
  scheduler::KeptBefore before;
  for (const auto& ask : asks)
    if (const auto own = keptNodes_.find(ask.claimUid); own != keptNodes_.end()) {
      before.nodes.push_back(own->second.node);
      before.moves = std::max(before.moves, own->second.moves);
    }
  return before;
}

bool ClusterView::anotherGangKeeps(const std::vector<Ask>& asks) const {
  return std::any_of(keptNodes_.begin(), keptNodes_.end(), [&](const auto& kept) {
    const auto own = [&](const Ask& ask) { return ask.claimUid == kept.first; };
    return kept.second.ofGang && std::none_of(asks.begin(), asks.end(), own) &&
           scheduler::comesBefore(kept.second.owner, waiterOf(asks.front()));
  });
}

void ClusterView::keepForGang(const std::vector<Ask>& asks, const std::vector<GangPlace>& places,
                              const std::vector<scheduler::TopologyGroup>* within) {
  const auto now = asks.front().turn.now;
  std::unique_lock lock(mutex_);
  if (!looksNow(asks) || anotherGangKeeps(asks)) return;
  const auto before = keptFor(asks);
  const auto since = keptSince(asks);
  if (now - since >= kForGangAtMost) {
    inVain_[asks.front().claimUid] = now + kForGangAtMost - kLookAfterVain;  // so that it ends after kForGangAtMost
    keepInstead(asks, {}, now);
    lock.unlock();
    return announce();
  }
  const auto most = std::max<std::size_t>(1, cluster_.nodeCount() / std::max<std::size_t>(1, keeping_.gangShare));
  auto members = membersOf(asks, places);
  const auto later = then(asks, lock);
  for (auto& member : members) member.suits = later.open(member.suits);
  const auto heldSince = [&](std::string_view uid) {
    const std::lock_guard again(mutex_);
    const auto known = heldSince_.find(uid);
    return known == heldSince_.end() ? now : known->second;
  };
  const auto kept = scheduler::keepTogether(*later.cluster, members, within, now, heldSince, before, most);
  lock.lock();
  looked(asks.front(), !kept.empty());
  const bool wanted = !anyWaitsNoMore(asks) && allStand(asks) && !anotherGangKeeps(asks);
  keepInstead(asks, wanted ? kept : std::vector<scheduler::KeptForMember>(), since);
  lock.unlock();
  announce();
}

int64_t ClusterView::keptSince(const std::vector<Ask>& asks) const {
  int64_t since = asks.front().turn.now;
  for (const auto& ask : asks)
    if (const auto own = keptNodes_.find(ask.claimUid); own != keptNodes_.end())
      since = std::min(since, own->second.since);
  return since;
}

void ClusterView::keepInstead(const std::vector<Ask>& asks, const std::vector<scheduler::KeptForMember>& kept,
                              int64_t since) {
  const auto before = keptFor(asks);
  std::set<std::string> given;  // up
  std::erase_if(keptNodes_, [&](const auto& each) {
    const auto own = [&](const Ask& ask) { return ask.claimUid == each.first; };
    // A younger gang has its turn later.
    const bool goes = std::any_of(asks.begin(), asks.end(), own) || (each.second.ofGang && !kept.empty());
    if (goes) given.insert(each.second.node);
    return goes;
  });
  const auto keeps = [&](const auto& node) {
    return std::any_of(kept.begin(), kept.end(), [&](const auto& each) { return each.node == node; });
  };
  const bool moves = !std::all_of(before.nodes.begin(), before.nodes.end(), keeps);
  for (const auto& each : kept) {
    auto owner = waiterOf(asks[each.member]);
    owner.request = nullptr;  // it does not outlive the decision
    keptNodes_[asks[each.member].claimUid] = {
        std::move(owner), each.node, asks.front().turn.now, before.moves + (moves ? 1 : 0), true, since};
  }
  grew_ = grew_ || !std::all_of(given.begin(), given.end(), keeps);
}

void ClusterView::keepNoNode(std::string_view claimUid) {
  const auto known = keptNodes_.find(claimUid);
  if (known == keptNodes_.end()) return;
  keptNodes_.erase(known);
  grew_ = true;
}

std::vector<scheduler::Kept> ClusterView::keptNodes() const {
  const std::lock_guard lock(mutex_);
  std::vector<scheduler::Kept> all;
  for (const auto& [uid, kept] : keptNodes_) all.push_back({kept.owner.name, kept.node, kept.moves});
  return all;
}

}  // namespace egpu::cache
