// What ClusterView keeps for claims that others must not overtake: room that is nominated, and nodes for those who have waited
// for long.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "api/v1alpha/keys.h"
#include "controller/base/timestamp.h"
#include "controller/cache/cluster_view.h"

namespace egpu::cache {

namespace phase = v1alpha::keys::phase;

namespace {

constexpr int64_t kLookEvery = 1;   ///< seconds between two looks for a node to keep: each is a scan of the cluster
constexpr int64_t kLookAgain = 15;  ///< the same for a claim that has one
constexpr int64_t kLookAfterVain = 300;  ///< the same for one that found none: others have their looks meanwhile

/// A gang that is not whole by then has its turn again after as long: many nodes stand idle for it.
constexpr int64_t kForGangAtMost = 86'400;

std::string nominatedKey(std::string_view claimUid) { return std::string("nominated/").append(claimUid); }

int64_t secondsOf(const std::string& time) {
  const auto at = base::parseRfc3339(time);
  return at ? std::chrono::duration_cast<std::chrono::seconds>(at->time_since_epoch()).count() : 0;
}

/// What is free of it, and not more than that.
scheduler::Amount upTo(const scheduler::Amount& free, const v1alpha::NominatedCard& wanted) {
  return {std::clamp<int64_t>(free.core, 0, wanted.core), std::clamp<int64_t>(free.memory, 0, wanted.memory)};
}

scheduler::Amount freeOf(const scheduler::Cluster& cluster, const std::string& card) {
  const auto known = cluster.findCard(card);
  return {known.capacity.core - known.used.core, known.capacity.memory - known.used.memory};
}

/// The nomination has come true: its victims are gone, its owner has its room.
void carryOut(scheduler::Cluster& cluster, const std::string& ownerUid, const v1alpha::Nomination& room,
              const std::vector<std::string>& victimUids) {
  for (const auto& card : cluster.cardsOf(room.nodeName))
    for (const auto& uid : victimUids) cluster.giveBack(card, uid);
  for (const auto& card : room.cards)
    cluster.take(card.name, nominatedKey(ownerUid), upTo(freeOf(cluster, card.name), card));
}

}  // namespace

int64_t ClusterView::sinceOf(const Claim& claim) const {
  int64_t since = secondsOf(claim.metadata.creationTimestamp);
  const auto beside = [&since](const Claim& other) {
    since = std::min(since, secondsOf(other.metadata.creationTimestamp));
  };
  const auto gang = claim.metadata.annotation(v1alpha::keys::kGangAnnotation);
  if (!gang.empty())
    for (const auto& member : stores_.claimsOfGang(claim.metadata.namespace_, gang)) beside(*member);
  const auto group = claim.metadata.annotation(v1alpha::keys::kGangPodGroupAnnotation);
  if (!group.empty())
    for (const auto& member : stores_.claimsOfPodGroup(claim.metadata.namespace_, group)) beside(*member);
  for (const auto& pod : stores_.podsOfClaim(core::keyOf(claim.metadata)))
    for (const auto& entry : pod->resourceClaims)
      if (const auto other = stores_.claims.get({claim.metadata.namespace_, entry.resourceClaimName})) beside(*other);
  return since;
}

void ClusterView::refreshNomination(const Claim& claim, bool gone) {
  const auto& uid = claim.metadata.uid;
  {
    const std::lock_guard lock(mutex_);
    const auto now = stores_.claims.get(core::keyOf(claim.metadata));  // what is told may be old news
    const bool stands = !gone && now && now->metadata.uid == uid && now->status.nominated &&
                        !now->metadata.deleting() && now->status.phase != phase::kBound;
    const auto known = nominated_.find(uid);
    if (stands) {
      Nominated fresh{{core::keyOf(now->metadata).str(), now->status.priority, sinceOf(*now), nullptr},
                      *now->status.nominated};
      if (known != nominated_.end() && !(known->second.room == fresh.room)) grew_ = true;
      nominated_[uid] = std::move(fresh);
    } else if (known != nominated_.end()) {
      nominated_.erase(known);
      grew_ = true;
    }
  }
  announce();
}

scheduler::Waiter ClusterView::waiterOf(const Ask& ask) {
  return {ask.claim, ask.turn.priority, ask.turn.since, &ask.request};
}

/// One that has its room, or is about to, needs no other.
bool ClusterView::waitsNoMore(const std::string& claimUid) const {
  return assumptions_.contains(claimUid) || !stores_.devicesOfClaim(claimUid).empty();
}

bool ClusterView::nodeIsKeptFrom(const std::vector<Ask>& asks, const std::string& ownerUid,
                                 const KeptNode& kept) const {
  const auto observes = [](const Ask& ask) { return ask.request.observes; };  // takes no room of anybody
  if (std::all_of(asks.begin(), asks.end(), observes)) return false;
  return !waitsNoMore(ownerUid) && std::all_of(asks.begin(), asks.end(), [&](const Ask& ask) {
    return observes(ask) || (ask.claimUid != ownerUid && scheduler::comesBefore(kept.owner, waiterOf(ask)));
  });
}

/// Not even older ones of the same priority may take what others made room for, unless room is made for them, too.
bool ClusterView::roomIsKeptFrom(const std::vector<Ask>& asks, const std::string& ownerUid,
                                 const Nominated& nominated) const {
  const auto& owner = nominated.owner;
  return !waitsNoMore(ownerUid) && std::all_of(asks.begin(), asks.end(), [&](const Ask& ask) {
    if (ask.claimUid == ownerUid || ask.turn.priority > owner.priority) return false;
    if (ask.turn.priority < owner.priority || !nominated_.contains(ask.claimUid)) return true;
    return scheduler::comesBefore(owner, waiterOf(ask));
  });
}

ClusterView::TakenBack ClusterView::holdBack(const std::vector<Ask>& asks) {
  TakenBack taken;
  if (nominated_.empty()) return taken;
  scheduler::Cluster& cluster = cluster_;  // told nobody: it is given back before anything is told
  for (const auto& [uid, nominated] : nominated_) {
    if (!roomIsKeptFrom(asks, uid, nominated)) continue;
    for (const auto& card : nominated.room.cards) {
      const auto amount = upTo(freeOf(cluster, card.name), card);
      if (amount.core == 0 && amount.memory == 0) continue;
      auto key = nominatedKey(uid);
      if (cluster.take(card.name, key, amount)) taken.emplace_back(card.name, std::move(key));
    }
  }
  return taken;
}

void ClusterView::letHave(const TakenBack& taken) {
  scheduler::Cluster& cluster = cluster_;
  for (const auto& [card, uid] : taken) cluster.giveBack(card, uid);
}

const scheduler::NodePredicate& ClusterView::openNodes(const std::vector<Ask>& asks,
                                                       const scheduler::NodePredicate& suits,
                                                       scheduler::NodePredicate& open) const {
  if (std::none_of(keptNodes_.begin(), keptNodes_.end(),
                   [&](const auto& kept) { return nodeIsKeptFrom(asks, kept.first, kept.second); }))
    return suits;
  open = [this, &asks, &suits](std::string_view node) {
    for (const auto& [uid, kept] : keptNodes_)
      if (kept.node == node && nodeIsKeptFrom(asks, uid, kept)) return false;
    return !suits || suits(node);
  };
  return open;
}

void ClusterView::closeKept(const std::vector<Ask>& asks, std::span<const std::string_view> nodes,
                            std::vector<scheduler::NodeVerdict>& verdicts) const {
  std::vector<std::string_view> closed;
  for (const auto& [uid, kept] : keptNodes_)
    if (!asks.empty() && nodeIsKeptFrom(asks, uid, kept)) closed.push_back(kept.node);
  if (closed.empty()) return;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (std::find(closed.begin(), closed.end(), nodes[i]) != closed.end()) verdicts[i] = {};
}

std::set<std::string, std::less<>> ClusterView::nodesKeptFrom(const std::vector<Ask>& asks) const {
  std::set<std::string, std::less<>> nodes;
  const std::lock_guard lock(mutex_);
  for (const auto& [uid, nominated] : nominated_)
    if (roomIsKeptFrom(asks, uid, nominated)) nodes.insert(nominated.room.nodeName);
  for (const auto& [uid, kept] : keptNodes_)
    if (nodeIsKeptFrom(asks, uid, kept)) nodes.insert(kept.node);
  return nodes;
}

std::set<std::string, std::less<>> ClusterView::nodesKeptForOthers(std::string_view claim) const {
  std::set<std::string, std::less<>> nodes;
  const std::lock_guard lock(mutex_);
  for (const auto& [uid, nominated] : nominated_)
    if (nominated.owner.name != claim && !waitsNoMore(uid)) nodes.insert(nominated.room.nodeName);
  for (const auto& [uid, kept] : keptNodes_)
    if (kept.owner.name != claim && !waitsNoMore(uid)) nodes.insert(kept.node);
  return nodes;
}

scheduler::Decision ClusterView::decideHere(const Ask& ask, const scheduler::NodePredicate& suits) {
  const auto own = nominated_.find(ask.claimUid);
  if (own != nominated_.end()) {
    auto here = ask.request;
    const bool elsewhere = !here.pinnedNode.empty() && here.pinnedNode != own->second.room.nodeName;
    here.pinnedNode = own->second.room.nodeName;
    if (!elsewhere)
      if (auto decision = scheduler::decide(cluster_, here, suits); decision.fits) return decision;
  }
  return scheduler::decide(cluster_, ask.request, suits);
}

std::vector<scheduler::GangMember> ClusterView::inTheirRoom(const std::vector<Ask>& asks,
                                                            std::vector<scheduler::GangMember> members) const {
  for (std::size_t i = 0; i < asks.size(); ++i) {
    const auto own = nominated_.find(asks[i].claimUid);
    if (own == nominated_.end()) return {};
    auto& pinned = members[i].request.pinnedNode;
    if (!pinned.empty() && pinned != own->second.room.nodeName) return {};
    pinned = own->second.room.nodeName;
  }
  return members;
}

void ClusterView::noteAge(const Gpu& device) {
  heldSince_[device.metadata.uid] = secondsOf(device.metadata.creationTimestamp);
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

std::shared_ptr<const scheduler::Cluster> ClusterView::picture() {
  if (!picture_.cluster || picture_.changes != cluster_.changes()) {
    picture_.cluster = std::make_shared<const scheduler::Cluster>(cluster_);  // without who is told
    picture_.changes = cluster_.changes();
    ++picture_.copies;
  }
  return picture_.cluster;
}

uint64_t ClusterView::copies() const {
  const std::lock_guard lock(mutex_);
  return picture_.copies;
}

ClusterView::Then ClusterView::then(const std::vector<Ask>& asks, std::unique_lock<std::mutex>& lock) {
  struct Before {
    std::string owner;
    v1alpha::Nomination room;
    std::vector<std::string> victims;
  };
  Then then{picture(), {}};
  std::vector<Before> before;
  for (const auto& [uid, nominated] : nominated_)
    if (roomIsKeptFrom(asks, uid, nominated)) before.push_back({uid, nominated.room, uidsOf(nominated.room.victims)});
  for (const auto& [uid, node] : keptNodes_)
    if (nodeIsKeptFrom(asks, uid, node)) then.closed.push_back(node.node);
  lock.unlock();
  if (before.empty()) return then;
  auto after = std::make_shared<scheduler::Cluster>(*then.cluster);
  for (const auto& each : before) carryOut(*after, each.owner, each.room, each.victims);
  then.cluster = std::move(after);
  return then;
}

scheduler::NodePredicate ClusterView::Then::open(const scheduler::NodePredicate& suits) const {
  if (closed.empty()) return suits;
  return [this, suits](std::string_view node) {
    return std::find(closed.begin(), closed.end(), node) == closed.end() && (!suits || suits(node));
  };
}

std::vector<std::string> ClusterView::uidsOf(const std::vector<std::string>& devices) const {
  std::vector<std::string> uids;
  for (const auto& name : devices)
    if (const auto known = devices_.find(name); known != devices_.end())
      uids.push_back(known->second.object->metadata.uid);
  return uids;
}

scheduler::Preemption ClusterView::preempt(const Ask& ask, const scheduler::NodePredicate& suits,
                                           const scheduler::MayGo& mayGo, const scheduler::StandingOf& standing,
                                           const scheduler::Enough& enough) {
  std::unique_lock lock(mutex_);
  auto request = ask.request;
  if (const auto claim = counted(ask)) request.quota = book_.rooms(*claim);
  const auto now = then({ask}, lock);
  return scheduler::preempt(*now.cluster, request, now.open(suits), mayGo, scheduler::kMostPreemptions, {}, {},
                            standing, enough);
}

scheduler::PreemptionTogether ClusterView::preemptTogether(const std::vector<Ask>& asks,
                                                           const std::vector<GangPlace>& places,
                                                           const std::vector<scheduler::TopologyGroup>* within,
                                                           const scheduler::MayGo& mayGo,
                                                           const scheduler::StandingOf& standing,
                                                           const scheduler::Enough& enough) {
  std::unique_lock lock(mutex_);
  auto members = membersOf(asks, places);
  const bool any = std::any_of(members.begin(), members.end(), [](const auto& each) { return each.claim.has_value(); });
  const auto book = any ? book_ : scheduler::QuotaBook();
  const auto now = then(asks, lock);
  for (auto& member : members) member.suits = now.open(member.suits);
  return scheduler::preemptTogether(*now.cluster, members, within, book, mayGo, standing, scheduler::kMostPreemptions,
                                    enough);
}

bool ClusterView::needs(const std::vector<Ask>& asks, const std::vector<v1alpha::Nomination>& rooms,
                        const std::string& victim) const {
  struct Node {
    scheduler::Cluster cluster;
    std::vector<scheduler::Request> requests;
  };
  std::map<std::string, Node> nodes;
  std::unique_lock lock(mutex_);
  if (anyWaitsNoMore(asks)) return false;
  std::vector<std::string> others;
  for (std::size_t i = 0; i < asks.size(); ++i) {
    const auto& room = rooms[i];
    auto [known, fresh] = nodes.try_emplace(room.nodeName);
    if (fresh) scheduler::copyNode(cluster_, room.nodeName, known->second.cluster);
    known->second.requests.push_back(asks[i].request);
    for (const auto& uid : uidsOf(room.victims)) others.push_back(uid);
  }
  for (const auto& [uid, other] : nominated_) {
    const auto node = nodes.find(other.room.nodeName);
    if (node != nodes.end() && roomIsKeptFrom(asks, uid, other))
      carryOut(node->second.cluster, uid, other.room, uidsOf(other.room.victims));
  }
  const auto last = uidsOf({victim});
  if (last.empty() || std::erase(others, last.front()) == 0) return false;
  lock.unlock();
  bool needed = false;
  for (auto& [name, node] : nodes) {
    const auto fitWithout = [&name = name, &node = node](const std::vector<std::string>& uids) {
      for (const auto& card : node.cluster.cardsOf(name))
        for (const auto& uid : uids) node.cluster.giveBack(card, uid);
      return !scheduler::togetherOn(node.cluster, node.requests, name).empty();
    };
    const bool without = fitWithout(others);
    if (!fitWithout(last)) return false;
    needed = needed || !without;
  }
  return needed;
}

std::string ClusterView::keptFrom(const Ask& ask) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  const std::string own = ask.claim.substr(0, ask.claim.find('/') + 1);
  const auto add = [&](const scheduler::Waiter& owner, const std::string& node) {
    // Who reads it may not read other namespaces.
    text += (text.empty() ? "kept for others: room on node " : ", on node ") + node +
            (owner.name.starts_with(own) ? " for claim " + owner.name : " for a claim of another namespace");
  };
  for (const auto& [uid, nominated] : nominated_)
    if (roomIsKeptFrom({ask}, uid, nominated)) add(nominated.owner, nominated.room.nodeName);
  for (const auto& [uid, kept] : keptNodes_)
    if (nodeIsKeptFrom({ask}, uid, kept)) add(kept.owner, kept.node);
  return text;
}

std::vector<scheduler::Kept> ClusterView::keptNodes() const {
  const std::lock_guard lock(mutex_);
  std::vector<scheduler::Kept> all;
  for (const auto& [uid, kept] : keptNodes_) all.push_back({kept.owner.name, kept.node, kept.moves});
  return all;
}

}  // namespace egpu::cache
