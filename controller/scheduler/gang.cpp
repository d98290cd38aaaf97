#include "controller/scheduler/gang.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/gang_units.h"
#include "controller/scheduler/choice/topology_group.h"
#include "controller/scheduler/quota/within.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

constexpr std::size_t kNodesBetweenPauses = 4096;  ///< evaluated nodes between two pauses, about a millisecond
constexpr int kSetbacks = 3;                       ///< maximum number of pauses in one try that cost a member its place

class Gathering {
 public:
  Gathering(Cluster& cluster, const std::vector<GangMember>& members, const QuotaBook& book, const Pause& pause)
      : cluster_(cluster), members_(members), book_(book), pause_(pause), units_(members) {
    for (std::size_t i = 0; i < members.size(); ++i) uids_.push_back("gang/" + std::to_string(i));
  }

  /// Places the members of the furthest try, explains the lacking member, and releases all.
  Explanation explain(const std::vector<TopologyGroup>* within, const WhyUnsuitedForMember& whyUnsuited) {
    const GangDecision decision = run(within);
    if (!decision.lacking || decision.lacking->excess || (within != nullptr && furthest_.group == nullptr)) return {};
    placed_.clear();
    on_.clear();
    asked_.clear();
    inGroup_.reset();
    decisions_ = furthest_.decisions;
    places_.assign(members_.size(), GroupPlacer::kNowhere);
    for (const std::size_t i : furthest_.placed) take(i);
    auto explanation = explainMember(decision.lacking->member, whyUnsuited);
    takeBack(0);
    return explanation;
  }

  GangDecision run(const std::vector<TopologyGroup>* within) {
    if (members_.empty()) return {};
    if (within == nullptr) {
      (void)allIn(nullptr);
      return std::move(result_);
    }
    bool first = true;
    for (const TopologyGroup* group : ordered(*within)) {
      if (!std::exchange(first, false) && pause_) pause_();
      if (allIn(group)) return std::move(result_);
    }
    if (!result_.lacking) result_.lacking.emplace();
    return std::move(result_);
  }

 private:
  using Unit = GangUnit;
  static constexpr std::span<const std::size_t> kNobody{};

  std::vector<const TopologyGroup*> ordered(const std::vector<TopologyGroup>& within) const {
    std::vector<const TopologyGroup*> order;
    order.reserve(within.size());
    for (const TopologyGroup& group : within) order.push_back(&group);
    if (order.size() < 2) return order;
    const std::string liked = scheduler::decide(cluster_, members_.front().request, members_.front().suits).node;
    const auto first = std::find_if(order.begin(), order.end(), [&liked](const TopologyGroup* group) {
      return std::find(group->nodes.begin(), group->nodes.end(), liked) != group->nodes.end();
    });
    if (first != order.end()) std::rotate(order.begin(), first, first + 1);
    return order;
  }

  bool allIn(const TopologyGroup* group) {
    inGroup_.reset();
    if (group != nullptr) inGroup_ = std::make_unique<GroupPlacer>(cluster_, *group);
    paused_ = evaluations();
    return allIn(group, units_.inOrder) || (units_.largestFirst != units_.inOrder && allIn(group, units_.largestFirst));
  }

  bool allIn(const TopologyGroup* group, const std::vector<Unit>& order) {
    decisions_.assign(members_.size(), {});
    places_.assign(members_.size(), GroupPlacer::kNowhere);
    placed_.clear();
    on_.clear();
    asked_.clear();
    std::optional<QuotaExcess> excess;
    std::optional<std::size_t> lacks;
    int setbacks = 0;
    for (std::size_t next = 0; next < order.size() && !lacks;) {
      if (pause_ && setbacks < kSetbacks && evaluations() - paused_ >= kNodesBetweenPauses) {
        const std::size_t left = othersDecide(order, next);
        setbacks += left < next;
        next = left;
      }
      if (!(lacks = unitIn(order[next], excess))) ++next;
    }
    const auto placed = placed_;
    const std::size_t within = lacks ? placed.size() : withinQuotas(placed, excess);
    takeBack(0);
    if (!lacks && within < placed.size()) lacks = placed[within];
    if (lacks) {
      fellShort({*lacks, within, group ? group->value : std::string(), std::move(excess)}, group, placed);
      return false;
    }
    result_ = {std::move(decisions_), group ? group->value : std::string(), std::nullopt};
    return true;
  }

  /// Number of nodes evaluated so far.
  std::size_t evaluations() const { return inGroup_ ? inGroup_->evaluations() : asks_; }

  /// Pauses after `placed` units. Returns how many leading units still have their places.
  std::size_t othersDecide(const std::vector<Unit>& order, std::size_t placed) {
    takeBack(0);
    pause_();
    if (inGroup_) inGroup_->invalidateAll();
    paused_ = evaluations();
    for (std::size_t next = 0; next < placed; ++next) {
      const std::size_t before = placed_.size();
      for (const std::size_t i : order[next]) {
        if (!stillFits(i)) {
          takeBack(before);
          return next;
        }
        take(i);
      }
    }
    return placed;
  }

  /// True if the member's decision still fits. Quotas are checked when all members are placed.
  bool stillFits(std::size_t i) const {
    const auto& state = cluster_.state();
    const Decision& decision = decisions_[i];
    const Request& request = members_[i].request;
    const NodeId id = state.findNode(decision.node);
    if (id == kNone || (members_[i].suits && !members_[i].suits(decision.node))) return false;
    const NodeRecord& node = state.nodes[id];
    return node.offered() && isBelowClaimLimit(node, request) && nodeHasCapacity(node, request) &&
           std::all_of(decision.placements.begin(), decision.placements.end(), [&](const Placement& each) {
             const CardId card = state.findCard(each.card, each.hint);
             return card != kNone && state.cards[card].node == id &&
                    canHold(state.cards[card], {TypeVerdict::suits, each.granted, each.charged, modeOf(state, request)},
                            request);
           });
  }

  /// Places a unit on one node. Otherwise returns the first member that lacks a place on the node that held most of
  /// them.
  std::optional<std::size_t> unitIn(const Unit& unit, std::optional<QuotaExcess>& excess) {
    std::set<std::string, std::less<>> tried;
    std::optional<std::size_t> lacks;
    std::vector<std::size_t> triedAt;
    const std::size_t before = placed_.size();
    while (true) {
      for (const std::size_t i : unit) {
        decisions_[i] = one(i, tried, excess);
        if (!decisions_[i].fits) {
          lacks = std::max(lacks.value_or(i), i);
          break;
        }
        take(i);
      }
      const std::size_t placed = placed_.size() - before;
      if (placed == 0 || placed == unit.size()) {
        for (const std::size_t place : triedAt) invalidateNode(place);  // their cards are free again
        if (placed == 0) return lacks;
        excess.reset();  // the quota that excluded other nodes
        return std::nullopt;
      }
      tried.insert(decisions_[unit.front()].node);
      triedAt.push_back(places_[unit.front()]);
      takeBack(before);
    }
  }

  /// Returns the predicate for the member; null = any node.
  NodePredicate nodesFor(std::size_t i, const std::set<std::string, std::less<>>& tried) const {
    const GangMember& member = members_[i];
    if (!member.hasCapacity && tried.empty()) return member.suits;
    return [this, &member, &tried](std::string_view node) {
      if (tried.contains(node) || (member.suits && !member.suits(node))) return false;
      const auto there = on_.find(node);
      return !member.hasCapacity || member.hasCapacity(node, there == on_.end() ? kNobody : there->second);
    };
  }

  /// Maps members to GroupPlacer's kinds: 0 without constraints and kind, one number per kind, and one for each other
  /// member.
  std::size_t kindOf(std::size_t i) const {
    const GangMember& member = members_[i];
    if (!member.suits && !member.hasCapacity) return 0;
    return member.kind ? 1 + 2 * *member.kind : 2 + 2 * i;
  }

  void invalidateNode(std::size_t place) {
    if (inGroup_) inGroup_->invalidateNode(place);
  }

  /// Decides one member. Sets `excess` if only the quotas exclude it.
  Decision one(std::size_t i, const std::set<std::string, std::less<>>& tried, std::optional<QuotaExcess>& excess) {
    const GangMember& member = members_[i];
    const NodePredicate suits = nodesFor(i, tried);
    Request asks = member.request;
    if (member.with) {
      const std::string& node = decisions_[*member.with].node;
      if (!asks.pinnedNode.empty() && asks.pinnedNode != node) return {};
      asks.pinnedNode = node;
    }
    NodePredicate counted;
    if (suits && !inGroup_)
      counted = [&](std::string_view node) {
        ++asks_;
        return suits(node);
      };
    const auto decided = [&](const Request& request) {
      if (!inGroup_) return scheduler::decide(cluster_, request, counted);
      auto chosen = inGroup_->decide(kindOf(i), request, member.suits, suits);
      places_[i] = chosen.place;
      return std::move(chosen.decision);
    };
    if (!member.claim) return decided(asks);
    Request within = asks;
    within.quota = book_.remaining(*member.claim, asked_);
    Decision decision = decided(within);
    if (decision.fits) return decision;
    if (const Decision outside = decided(asks); outside.fits) {
      auto asked = asked_;
      asked.push_back({*member.claim, partsOf(cluster_, outside)});
      excess = book_.excess(asked);
    }
    return decision;
  }

  void take(std::size_t i) {
    NodeAmount ofNode{members_[i].request.cpuMilli, members_[i].request.podMemory};
    for (const Placement& p : decisions_[i].placements) cluster_.take(p, uids_[i], std::exchange(ofNode, {}));
    if (members_[i].claim) asked_.push_back({*members_[i].claim, partsOf(cluster_, decisions_[i])});
    on_[decisions_[i].node].push_back(i);
    placed_.push_back(i);
    invalidateNode(places_[i]);
  }

  /// Releases all members placed after the first `size` ones.
  void takeBack(std::size_t size) {
    while (placed_.size() > size) {
      const std::size_t i = placed_.back();
      for (const Placement& p : decisions_[i].placements) cluster_.giveBack(p.ref(), uids_[i]);
      if (members_[i].claim) asked_.pop_back();
      on_[decisions_[i].node].pop_back();
      placed_.pop_back();
      invalidateNode(places_[i]);
    }
  }

  /// Returns how many placed members are within the quotas together. The filter on cards cannot decide this for divided
  /// totals or nodes with several card types.
  std::size_t withinQuotas(const std::vector<std::size_t>& order, std::optional<QuotaExcess>& excess) const {
    if (asked_.size() < order.size() || !(excess = book_.excess(asked_))) return order.size();
    std::vector<QuotaAsked> some;
    for (const QuotaAsked& each : asked_) {
      some.push_back(each);
      if (auto first = book_.excess(some)) {
        excess = std::move(first);
        break;
      }
    }
    return some.size() - 1;
  }

  void fellShort(GangShort lacking, const TopologyGroup* group, const std::vector<std::size_t>& placed) {
    if (result_.lacking && lacking.fit <= result_.lacking->fit) return;
    result_.lacking = std::move(lacking);
    furthest_ = {group, placed, decisions_};
  }

  Explanation explainMember(std::size_t i, const WhyUnsuitedForMember& whyUnsuited) {
    const GangMember& member = members_[i];
    const TopologyGroup* const group = furthest_.group;
    const auto outside = [group](std::string_view node) {
      return group != nullptr && std::find(group->nodes.begin(), group->nodes.end(), node) == group->nodes.end();
    };
    const auto crowded = [this, &member](std::string_view node) {
      const auto there = on_.find(node);
      return member.hasCapacity && !member.hasCapacity(node, there == on_.end() ? kNobody : there->second);
    };
    const NodePredicate suits = [&](std::string_view node) {
      return !outside(node) && (!member.suits || member.suits(node)) && !crowded(node);
    };
    const WhyUnsuited why = [&](std::string_view node) -> std::string {
      if (outside(node)) return "outside of " + group->value;
      if (member.suits && !member.suits(node)) return whyUnsuited ? whyUnsuited(i, node) : std::string();
      return "short of CPU, memory or pods beside the gang's other pods";
    };
    Request asks = member.request;
    if (member.claim) asks.quota = book_.remaining(*member.claim, asked_);
    auto explanation = scheduler::explain(cluster_, asks, suits, 0, {}, why);
    if (std::any_of(explanation.remedies.begin(), explanation.remedies.end(),
                    [this](const Remedy& remedy) { return releasesMembers(remedy); })) {
      auto elsewhere =
          scheduler::explain(cluster_, asks, [&](std::string_view node) { return suits(node) && !hasMembers(node); });
      explanation.remedies = std::move(elsewhere.remedies);
      explanation.smallestChange = std::move(elsewhere.smallestChange);
    }
    return explanation;
  }

  bool hasMembers(std::string_view node) const {
    const auto there = on_.find(node);
    return there != on_.end() && !there->second.empty();
  }

  /// True if the remedy would release more of a card than its holders outside the gang have.
  bool releasesMembers(const Remedy& remedy) const {
    return remedy.kind == Remedy::Kind::release &&
           std::any_of(remedy.shortages.begin(), remedy.shortages.end(), [this](const Remedy::CardCapacity& shortage) {
             const auto card = cluster_.findCard(shortage.card);
             auto others = card.used;
             int64_t claims = card.claims;
             for (const std::size_t i : placed_)
               for (const Placement& p : decisions_[i].placements) {
                 if (p.card != shortage.card) continue;
                 others = {others.core - p.charged.core, others.memory - p.charged.memory};
                 --claims;
               }
             return shortage.amount.core > others.core || shortage.amount.memory > others.memory ||
                    shortage.claims > claims;
           });
  }

  Cluster& cluster_;
  const std::vector<GangMember>& members_;
  const QuotaBook& book_;
  const Pause& pause_;
  std::vector<std::string> uids_;
  const GangUnits units_;
  std::unique_ptr<GroupPlacer> inGroup_;  ///< the current group, if groups are given
  std::size_t asks_ = 0;                  ///< calls of predicates, without groups
  std::size_t paused_ = 0;                ///< evaluations() at the last pause
  // State of the current try.
  std::vector<Decision> decisions_;
  std::vector<std::size_t> places_;                                  ///< positions of their nodes in the group
  std::vector<std::size_t> placed_;                                  ///< in the order of placement
  std::map<std::string, std::vector<std::size_t>, std::less<>> on_;  ///< members placed on each node
  std::vector<QuotaAsked> asked_;                                    ///< for the placed members
  GangDecision result_;
  /// The try that placed most members; result_.lacking describes it.
  struct Furthest {
    const TopologyGroup* group = nullptr;
    std::vector<std::size_t> placed;
    std::vector<Decision> decisions;
  };
  Furthest furthest_;
};

}  // namespace

GangDecision decideGang(Cluster& cluster, const std::vector<GangMember>& members,
                        const std::vector<TopologyGroup>* within, const QuotaBook& book, const Pause& pause) {
  return Gathering(cluster, members, book, pause).run(within);
}

Explanation explainGang(Cluster& cluster, const std::vector<GangMember>& members,
                        const std::vector<TopologyGroup>* within, const QuotaBook& book,
                        const WhyUnsuitedForMember& whyUnsuited) {
  const Pause pause;
  return Gathering(cluster, members, book, pause).explain(within, whyUnsuited);
}

}  // namespace egpu::scheduler
