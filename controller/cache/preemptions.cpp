// Preemption and explanations on a copy of the cluster, while others decide.
#include <algorithm>
#include <map>
#include <utility>

#include "controller/cache/cluster_view.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::cache {
namespace {

/// The nomination has come true: its victims are gone, its owner has its room.
void carryOut(scheduler::Cluster& cluster, const std::string& key, const v1alpha::Nomination& room,
              const std::vector<std::string>& victimUids) {
  for (const auto& card : cluster.cardsOf(room.nodeName))
    for (const auto& uid : victimUids) cluster.giveBack(card, uid);
  for (const auto& card : room.cards)
    cluster.take(card.name, key, scheduler::freeUpTo(cluster, card.name, {card.core, card.memory}));
}

}  // namespace

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

std::vector<std::string> ClusterView::uidsOf(const std::vector<std::string>& devices) const {
  std::vector<std::string> uids;
  for (const auto& name : devices)
    if (const auto known = devices_.find(name); known != devices_.end())
      uids.push_back(known->second.object->metadata.uid);
  return uids;
}

ClusterView::Then ClusterView::then(const std::vector<Ask>& asks, std::unique_lock<std::mutex>& lock) {
  struct Before {
    std::string key;
    v1alpha::Nomination room;
    std::vector<std::string> victims;
  };
  Then then{picture(), {}, quotasThen(asks)};
  std::vector<Before> before;
  for (const auto& [uid, nominated] : nominated_)
    if (roomIsKeptFrom(asks, uid, nominated))
      before.push_back({nominatedKey(uid), nominated.room, uidsOf(nominated.room.victims)});
  for (const auto& [uid, node] : keptNodes_)
    if (nodeIsKeptFrom(asks, uid, node)) then.closed.push_back(node.node);
  lock.unlock();
  if (before.empty()) return then;
  auto after = std::make_shared<scheduler::Cluster>(*then.cluster);
  for (const auto& each : before) carryOut(*after, each.key, each.room, each.victims);
  then.cluster = std::move(after);
  return then;
}

scheduler::NodePredicate ClusterView::Then::open(const scheduler::NodePredicate& suits) const {
  if (closed.empty()) return suits;
  return [this, suits](std::string_view node) {
    return std::find(closed.begin(), closed.end(), node) == closed.end() && (!suits || suits(node));
  };
}

scheduler::Preemption ClusterView::preempt(const Ask& ask, const scheduler::NodePredicate& suits,
                                           const scheduler::MayGo& mayGo, const scheduler::StandingOf& standing,
                                           const scheduler::Enough& enough) {
  std::unique_lock lock(mutex_);
  const auto claim = counted(ask);
  const auto now = then({ask}, lock);
  if (claim)
    return scheduler::preemptWithin(*now.cluster, now.book, {*claim, ask.request, {}}, now.open(suits), mayGo, standing,
                                    enough);
  return scheduler::preempt(*now.cluster, ask.request, now.open(suits), mayGo, scheduler::kMostPreemptions, {}, {},
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
  const auto now = then(asks, lock);
  for (auto& member : members) member.suits = now.open(member.suits);
  return scheduler::preemptTogether(*now.cluster, members, within, now.book, mayGo, standing,
                                    scheduler::kMostPreemptions, enough);
}

scheduler::Explanation ClusterView::explainGang(const std::vector<Ask>& asks, const std::vector<GangPlace>& places,
                                                const std::vector<scheduler::TopologyGroup>* within,
                                                const scheduler::WhyUnsuitedForMember& whyUnsuited) {
  std::unique_lock lock(mutex_);
  auto members = membersOf(asks, places);
  const auto now = then(asks, lock);
  for (auto& member : members) member.suits = now.open(member.suits);
  scheduler::Cluster trial = *now.cluster;
  return scheduler::explainGang(trial, members, within, now.book, [&](std::size_t member, std::string_view node) {
    if (std::find(now.closed.begin(), now.closed.end(), node) != now.closed.end())
      return std::string("reserved for a claim that has waited longer");
    return whyUnsuited ? whyUnsuited(member, node) : std::string();
  });
}

namespace {

/// Nodes and quotas that some nominations are for, tried without the cluster.
class Rooms {
 public:
  explicit Rooms(scheduler::QuotaBook book) : book_(std::move(book)) {}

  void add(const scheduler::Cluster& from, const std::string& node, const scheduler::Request& request,
           std::optional<scheduler::QuotaClaim> claim) {
    auto [known, fresh] = nodes_.try_emplace(node);
    if (fresh) scheduler::copyNode(from, node, known->second.cluster);
    known->second.requests.push_back(request);
    known->second.claims.push_back(std::move(claim));
  }
  /// Null: none of them is for that node.
  scheduler::Cluster* find(const std::string& node) {
    const auto known = nodes_.find(node);
    return known == nodes_.end() ? nullptr : &known->second.cluster;
  }
  void release(const std::vector<std::string>& uids) {
    for (const auto& uid : uids) {
      book_.drop(uid);
      for (auto& [name, node] : nodes_)
        for (const auto& card : node.cluster.cardsOf(name)) node.cluster.giveBack(card, uid);
    }
  }
  /// Whether all fit as it is now.
  bool fit() {
    std::vector<scheduler::QuotaAsked> asked;
    for (auto& [name, node] : nodes_) {
      for (std::size_t i = 0; i < node.requests.size(); ++i)
        if (node.claims[i]) node.requests[i].quota = book_.rooms(*node.claims[i]);
      const auto decisions = scheduler::togetherOn(node.cluster, node.requests, name);
      if (decisions.empty()) return false;
      for (std::size_t i = 0; i < decisions.size(); ++i)
        if (node.claims[i]) asked.push_back({*node.claims[i], scheduler::partsOf(node.cluster, decisions[i])});
    }
    return !book_.excess(asked);
  }

 private:
  struct Node {
    scheduler::Cluster cluster;
    std::vector<scheduler::Request> requests;
    std::vector<std::optional<scheduler::QuotaClaim>> claims;  ///< claim of each request, if quotas count it
  };
  scheduler::QuotaBook book_;
  std::map<std::string, Node> nodes_;
};

}  // namespace

bool ClusterView::needs(const std::vector<Ask>& asks, const std::vector<v1alpha::Nomination>& rooms,
                        const std::vector<std::string>& group) {
  std::unique_lock lock(mutex_);
  if (anyWaitsNoMore(asks)) return false;
  Rooms tried(quotasThen(asks));
  std::vector<std::string> others;
  for (std::size_t i = 0; i < asks.size(); ++i) {
    tried.add(cluster_, rooms[i].nodeName, asks[i].request,
              asks[i].request.observes ? std::nullopt : counted(asks[i]));
    for (const auto& uid : uidsOf(rooms[i].victims)) others.push_back(uid);
  }
  for (const auto& [uid, other] : nominated_)
    if (auto* const node = tried.find(other.room.nodeName); node != nullptr && roomIsKeptFrom(asks, uid, other))
      carryOut(*node, nominatedKey(uid), other.room, uidsOf(other.room.victims));
  auto last = uidsOf(group);
  std::erase_if(last, [&others](const std::string& uid) { return std::erase(others, uid) == 0; });
  if (last.empty()) return false;
  lock.unlock();
  tried.release(others);
  const bool without = tried.fit();
  tried.release(last);
  return tried.fit() && !without;
}

}  // namespace egpu::cache
