// Finds moves that let all members of a gang in.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "controller/scheduler/choice/gang_units.h"
#include "controller/scheduler/choice/preempt_together.h"
#include "controller/scheduler/choice/victim_places.h"
#include "controller/scheduler/moves.h"
#include "controller/scheduler/moving/moving.h"
#include "controller/scheduler/quota/within.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

constexpr int64_t kGroupsTried = 16;  ///< each group gets at least this fraction of the decisions

std::string memberUid(std::size_t member) { return "moves/member/" + std::to_string(member); }

/// Lower bound of the number of moves that empty enough cards of a group for all members. Used if all request whole
/// cards.
class EmptyCards {
 public:
  EmptyCards(const Cluster& cluster, const std::vector<GangMember>& members, const Movers& movers)
      : state_(cluster.state()), movers_(movers), members_(static_cast<int64_t>(members.size())) {
    for (const GangMember& member : members) {
      const Request& request = member.request;
      each_ = std::min(each_, request.wholeCards && !request.adminAccess ? request.cards : 0);
    }
    for (const auto& [device, mover] : movers) widest_ = std::max(widest_, mover.request.cards);
  }

  /// Returns nullopt if no moves can empty enough cards of the group, and 1 if no better bound is known.
  std::optional<int64_t> leastMoves(const TopologyGroup* group) const {
    if (each_ <= 0) return 1;
    std::vector<int64_t> costs;
    if (group == nullptr)
      for (const auto& [name, id] : state_.nodesByName()) addNode(id, costs);
    else
      for (const std::string& name : group->nodes)
        if (const NodeId id = state_.findNode(name); id != kNone) addNode(id, costs);
    const auto wanted = static_cast<std::ptrdiff_t>(members_);
    if (static_cast<std::ptrdiff_t>(costs.size()) < wanted) return std::nullopt;
    std::sort(costs.begin(), costs.end());
    const int64_t claims = std::accumulate(costs.begin(), costs.begin() + wanted, int64_t{0});
    return std::max<int64_t>(1, (claims + widest_ - 1) / widest_);
  }

 private:
  /// Adds one cost per member that the node could hold: the number of claims that must leave for it, in addition to
  /// those for the members before. Cards with few claims come first, so the costs of a node never decrease.
  void addNode(NodeId id, std::vector<int64_t>& costs) const {
    const NodeRecord& node = state_.nodes[id];
    if (!node.offered()) return;
    std::vector<int64_t> claims;
    for (const CardId card : node.cards) {
      const CardRecord& record = state_.cards[card];
      if (!record.healthy) continue;
      bool movable = true;
      state_.eachTake(card, [&](std::string_view device, const Amount&, const NodeAmount&) {
        movable = movable && movers_.find(device) != movers_.end();
      });
      if (movable) claims.push_back(record.claims());
    }
    std::sort(claims.begin(), claims.end());
    const auto each = static_cast<std::size_t>(each_);
    for (std::size_t first = 0; first + each <= claims.size(); first += each)
      costs.push_back(std::accumulate(claims.begin() + static_cast<std::ptrdiff_t>(first),
                                      claims.begin() + static_cast<std::ptrdiff_t>(first + each), int64_t{0}));
  }

  const Cluster::State& state_;
  const Movers& movers_;
  const int64_t members_;
  int64_t each_ = std::numeric_limits<int64_t>::max();  ///< fewest cards of a member; 0: a member requests a share
  int64_t widest_ = 1;                                  ///< maximum number of cards that one move frees
};

class LettingAllIn {
 public:
  LettingAllIn(const Cluster& cluster, const std::vector<GangMember>& members, const QuotaBook& book,
               const Movers& movers, int64_t limit, const Pause& pause)
      : cluster_(cluster),
        members_(members),
        book_(book),
        movers_(movers),
        left_(limit),
        pause_(pause),
        units_(members) {}

  MovePlan run(const std::vector<TopologyGroup>* within) {
    MovePlan plan;
    auto& gang = plan.gang.emplace(MovePlan::Gang{});
    GangDecision now = decideGang(cluster_, members_, within, book_);
    if (!now.lacking) {
      gang = {std::move(now.decisions), std::move(now.group), members_.size()};
      plan.possible = true;
      return plan;
    }
    gang.fit = now.lacking->fit;
    gang.lacking = std::move(now.lacking);
    plan.exact = movers_.empty();
    if (gang.lacking->excess || movers_.empty()) return plan;
    const EmptyCards empty(cluster_, members_, movers_);
    std::optional<int64_t> least;
    const auto groups = static_cast<int64_t>(within == nullptr ? 1 : within->size());
    share_ = left_ / std::clamp<int64_t>(groups, 1, kGroupsTried) / static_cast<int64_t>(2 * members_.size());
    for (int64_t i = 0; i < groups; ++i) {
      const TopologyGroup* group = within == nullptr ? nullptr : &(*within)[static_cast<std::size_t>(i)];
      const auto bound = empty.leastMoves(group);
      if (!bound) continue;
      least = std::min(least.value_or(*bound), *bound);
      if (left_ > 0 && *bound < max()) tryIn(group, *bound);
    }
    plan.exact = best_ ? static_cast<int64_t>(best_->moves.size()) <= *least : !least;
    if (!best_) return plan;
    plan.possible = true;
    plan.moves = std::move(best_->moves);
    gang.decisions = std::move(best_->decided.decisions);
    gang.group = std::move(best_->decided.group);
    return plan;
  }

 private:
  using Unit = GangUnit;
  struct FoundMoves {
    std::vector<Move> moves;
    GangDecision decided;
  };

  /// Number of moves of the best plan; a plan with as many is no better.
  int64_t max() const { return best_ ? countOf(best_->moves) : std::numeric_limits<int64_t>::max(); }
  static int64_t countOf(const std::vector<Move>& moves) { return static_cast<int64_t>(moves.size()); }

  void tryIn(const TopologyGroup* group, int64_t bound) {
    group_ = group;
    only_.clear();
    inGroup_.clear();
    if (group != nullptr) {
      only_.push_back(*group);
      for (const std::string& node : group->nodes) inGroup_.insert(cluster_.state().findNode(node));
    }
    const auto enough = [&] { return max() <= bound || left_ <= 0; };
    memberByMember(units_.inOrder);
    if (units_.largestFirst != units_.inOrder && !enough()) memberByMember(units_.largestFirst);
    if (!enough()) allCapacityFirst();
  }

  void memberByMember(const std::vector<Unit>& units) {
    known_ = {};
    const bool all = std::all_of(units.begin(), units.end(), [this](const Unit& unit) {
      return (unit.size() == 1 ? one(unit.front(), {}) : together(unit)) && countOf(made_) < max();
    });
    takeBackMembers(0);
    if (all) acceptIfAllFit();
    undoMoves(0);
  }

  /// Reserves the capacity for all members before any claim moves, as if the victims of preemptTogether() were gone.
  void allCapacityFirst() {
    const IsEvictable isEvictable = [this](std::string_view device) { return movers_.find(device) != movers_.end(); };
    const auto victims = preemptTogether(cluster_, members_, group_ == nullptr ? nullptr : &only_, book_, isEvictable,
                                         {}, left_, enough());
    left_ -= static_cast<int64_t>(victims.victims.size() + members_.size());
    if (victims.after.lacking || victims.victims.empty() || static_cast<int64_t>(victims.victims.size()) >= max())
      return;
    for (const Victim& each : victims.victims) release(cluster_, each.device, each.holdings);
    for (std::size_t i = 0; i < members_.size(); ++i) take(i, victims.after.decisions[i]);
    auto moves = settle(cluster_, victims.victims, movers_);
    if (moves)
      for (const Move& each : *moves) moveTo(cluster_, each.device, each.to);
    takeBackMembers(0);
    for (const Victim& each : victims.victims) hold(cluster_, each.device, each.holdings);
    if (!moves || !order(cluster_, *moves, movers_)) return;
    for (const Move& each : *moves) make(each);
    acceptIfAllFit();
    undoMoves(0);
  }

  /// The moves are made, and no capacity is reserved.
  void acceptIfAllFit() {
    if (countOf(made_) >= max()) return;
    left_ -= static_cast<int64_t>(members_.size());
    GangDecision decided = decideGang(cluster_, members_, group_ == nullptr ? nullptr : &only_, book_);
    if (!decided.lacking) best_ = FoundMoves{made_, std::move(decided)};
  }

  /// Frees and reserves capacity for a member, on `node` if given. Each member's moves are feasible in their order
  /// after those of the members before it, so all are.
  bool one(std::size_t i, const std::string& node) {
    const GangMember& member = members_[i];
    Request request = member.request;
    if (!node.empty()) {
      if (!request.pinnedNode.empty() && request.pinnedNode != node) return false;
      request.pinnedNode = node;
    }
    if (member.claim) request.quota = book_.remaining(*member.claim, asked_);
    const NodePredicate suits = [&](std::string_view name) {
      if (member.suits && !member.suits(name)) return false;
      return !member.hasCapacity || member.hasCapacity(name, on_[std::string(name)]);
    };
    std::vector<Move> moves;
    const AcceptVictims accept = [&](Cluster& without, const Decision& decision, const std::vector<Victim>& victims) {
      hold(without, memberUid(i), decision, {member.request.cpuMilli, member.request.podMemory});
      auto found = settle(without, victims, movers_);
      if (found)
        for (const Move& each : *found) moveTo(without, each.device, each.to);
      moveTo(without, memberUid(i), decision);
      if (!found) return false;
      for (const Victim& each : victims) hold(without, each.device, each.holdings);
      const bool ordered = order(without, *found, movers_);
      for (const Victim& each : victims) release(without, each.device, each.holdings);
      if (ordered) moves = *std::move(found);
      return ordered;
    };
    const IsEvictable isEvictable = [this](std::string_view device) {
      return movers_.find(device) != movers_.end() && !moved_.contains(device);
    };
    const std::vector<std::string> pinned = {request.pinnedNode};
    const auto* nodes = !request.pinnedNode.empty() ? &pinned : group_ == nullptr ? nullptr : &group_->nodes;
    if (nodes == &pinned && group_ != nullptr && !inGroup_.contains(cluster_.state().findNode(pinned.front())))
      return false;
    int64_t left = std::max<int64_t>(1, share_);
    left_ -= left;
    const Preemption found = preemptIn(cluster_, request, {nodes, {}}, suits, isEvictable, left, {}, enough(), accept,
                                       node.empty() ? &known_ : nullptr);
    left_ += left;
    if (!found.possible) return false;
    for (const Move& each : moves) make(each);
    take(i, found.decision);
    return true;
  }

  /// Places all members of one pod on the node where the fewest claims move.
  bool together(const Unit& unit) {
    std::string best;
    int64_t fewest = max() - countOf(made_);
    const auto tryNode = [&](const std::string& node) {
      const std::size_t moves = made_.size(), members = held_.size();
      const bool all = std::all_of(unit.begin(), unit.end(), [&](std::size_t i) { return one(i, node); });
      const auto more = countOf(made_) - static_cast<int64_t>(moves);
      if (all && more < fewest) {
        fewest = more;
        best = node;
      }
      takeBackMembers(members);
      undoMoves(moves);
    };
    std::vector<std::string> all;
    if (group_ == nullptr)
      for (const auto& [name, id] : cluster_.state().nodesByName()) all.emplace_back(name);
    for (const std::string& node : group_ == nullptr ? all : group_->nodes)
      if (fewest > 0 && left_ > 0) tryNode(node);
    return !best.empty() && std::all_of(unit.begin(), unit.end(), [&](std::size_t i) { return one(i, best); });
  }

  /// preemptIn() calls it before each decision, so that the caller can throw to abort.
  StopCondition enough() const {
    return [this] {
      if (pause_) pause_();
      return false;
    };
  }

  void make(const Move& move) {
    release(cluster_, move.device, move.from);
    hold(cluster_, move.device, move.to, nodeAmountOf(move.from));
    moved_.insert(move.device);
    made_.push_back(move);
    changed(move);
  }

  void undoMoves(std::size_t size) {
    while (made_.size() > size) {
      const Move& move = made_.back();
      moveTo(cluster_, move.device, move.to);
      hold(cluster_, move.device, move.from);
      moved_.erase(move.device);
      changed(move);
      made_.pop_back();
    }
  }

  void take(std::size_t i, const Decision& decision) {
    hold(cluster_, memberUid(i), decision, {members_[i].request.cpuMilli, members_[i].request.podMemory});
    if (members_[i].claim) asked_.push_back({*members_[i].claim, partsOf(cluster_, decision)});
    on_[decision.node].push_back(i);
    held_.emplace_back(i, decision);
    changed(cluster_.state().findNode(decision.node));
  }

  /// Releases the members after the first `size` ones.
  void takeBackMembers(std::size_t size) {
    while (held_.size() > size) {
      const auto& [i, decision] = held_.back();
      moveTo(cluster_, memberUid(i), decision);
      if (members_[i].claim) asked_.pop_back();
      on_[decision.node].pop_back();
      changed(cluster_.state().findNode(decision.node));
      held_.pop_back();
    }
  }

  void changed(const Move& move) {
    changed(cluster_.state().findNode(move.to.node));
    for (const Holding& each : move.from) changed(cluster_.state().cards[cluster_.state().findCard(each.card)].node);
  }
  /// Marks a node for re-evaluation; only nodes of the group, because the next search evaluates all marked nodes.
  void changed(NodeId node) {
    if (group_ == nullptr || inGroup_.contains(node)) known_.changed.insert(node);
  }

  Cluster cluster_;
  const std::vector<GangMember>& members_;
  const QuotaBook& book_;
  const Movers& movers_;
  int64_t left_;       ///< decisions left
  int64_t share_ = 0;  ///< decisions for one member in one try
  const Pause& pause_;
  const GangUnits units_;
  // State of the current group.
  const TopologyGroup* group_ = nullptr;
  std::vector<TopologyGroup> only_;
  std::set<NodeId> inGroup_;
  // State of the current try.
  VictimPlaces known_;
  std::vector<Move> made_;
  std::set<std::string, std::less<>> moved_;  ///< device uids
  std::vector<std::pair<std::size_t, Decision>> held_;
  std::map<std::string, std::vector<std::size_t>> on_;  ///< members with reserved capacity, by node
  std::vector<QuotaAsked> asked_;                       ///< for these members
  std::optional<FoundMoves> best_;
};

}  // namespace

MovePlan movesToLetAllIn(const Cluster& cluster, const std::vector<GangMember>& members,
                         const std::vector<TopologyGroup>* within, const QuotaBook& book, const Movers& movers,
                         int64_t limit, const Pause& pause) {
  MovePlan plan = LettingAllIn(cluster, members, book, movers, limit, pause).run(within);
  auto& lacking = plan.gang->lacking;
  const bool counted = std::any_of(members.begin(), members.end(), [](const auto& each) { return each.claim; });
  if (plan.possible || !lacking || lacking->excess || !counted) return plan;
  // If moves are possible without the quotas, a quota is the reason.
  std::vector<GangMember> uncounted = members;
  for (GangMember& member : uncounted) member.claim.reset();
  const MovePlan without = LettingAllIn(cluster, uncounted, book, movers, limit, pause).run(within);
  if (!without.possible) return plan;
  std::vector<QuotaAsked> asked;
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i].claim) asked.push_back({*members[i].claim, partsOf(cluster, without.gang->decisions[i])});
  lacking->excess = book.excess(asked);
  return plan;
}

bool beginWithMoveThatHolds(const Cluster& cluster, MovePlan& plan, const Movers& movers, const MovePlanner& planner,
                            std::size_t max) {
  for (std::size_t i = 0, tried = 0; i < plan.moves.size() && tried < max; ++i) {
    MovePlan other = plan;
    auto& moves = other.moves;
    std::rotate(moves.begin(), moves.begin() + static_cast<std::ptrdiff_t>(i),
                moves.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    if (i > 0) {
      const Move first = moves.front();
      const auto mover = movers.find(first.device);
      Cluster after = cluster;
      release(after, first.device, first.from);
      if (mover == movers.end() || !hasCapacity(after, first, mover->second.request)) continue;
      hold(after, first.device, first.to, nodeAmountOf(first.from));
      moves.erase(moves.begin());
      const bool ordered = order(after, moves, movers);
      moves.insert(moves.begin(), first);
      if (!ordered) continue;
    }
    ++tried;
    if (!firstMoveHolds(cluster, other, movers, planner)) continue;
    plan.moves = std::move(moves);
    return true;
  }
  return false;
}

}  // namespace egpu::scheduler
