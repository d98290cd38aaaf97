#include "controller/scheduler/gang.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "controller/scheduler/judge.h"
#include "controller/scheduler/quota/within.h"

namespace egpu::scheduler {
namespace {

/// One member after the other in a group of nodes: what decide() would choose of them. Its index has all nodes of the
/// cluster, most of which are of other groups.
class InGroup {
 public:
  InGroup(Cluster& cluster, const TopologyGroup& group) : cluster_(cluster), group_(group) {}

  Decision decide(const NodePredicate& suits, Request request) {
    if (!known_ || suits || !(request == *known_)) {
      look(suits, request);
    } else if (last_ < nodes_.size()) {  // nothing else changed
      const std::string_view node = nodes_[last_];
      verdicts_[last_] = judge(cluster_, {request}, {&node, 1}).front();
    }
    last_ = best();
    if (last_ == nodes_.size()) return {};
    request.pinnedNode = nodes_[last_];
    return scheduler::decide(cluster_, request);
  }

 private:
  void look(const NodePredicate& suits, const Request& request) {
    nodes_.clear();
    for (const std::string& node : group_.nodes)
      if (!suits || suits(node)) nodes_.push_back(node);
    verdicts_ = judge(cluster_, {request}, nodes_);
    known_.reset();
    if (!suits) known_ = request;
  }

  std::size_t best() const {
    std::size_t best = nodes_.size();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!verdicts_[i].fits) continue;
      if (best < nodes_.size() &&
          std::pair(-verdicts_[best].liking, nodes_[best]) < std::pair(-verdicts_[i].liking, nodes_[i]))
        continue;
      best = i;
    }
    return best;
  }

  Cluster& cluster_;
  const TopologyGroup& group_;
  std::optional<Request> known_;  ///< whose verdicts these are, but for the node that was chosen last
  std::vector<std::string_view> nodes_;
  std::vector<NodeVerdict> verdicts_;
  std::size_t last_ = 0;
};

class Gathering {
 public:
  Gathering(Cluster& cluster, const std::vector<GangMember>& members, const QuotaBook& book)
      : cluster_(cluster), members_(members), book_(book) {
    std::vector<std::size_t> unitOf(members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      uids_.push_back("gang/" + std::to_string(i));
      unitOf[i] = members[i].with ? unitOf[*members[i].with] : inOrder_.size();
      if (!members[i].with) inOrder_.emplace_back();
      inOrder_[unitOf[i]].push_back(i);
    }
    largestFirst_ = inOrder_;
    const auto size = [&members](const Unit& unit) {
      const Request& r = members[unit.front()].request;
      return std::tuple(r.wholeCards, r.perCard.core * r.cards, r.perCard.memory * r.cards, r.cards);
    };
    std::stable_sort(largestFirst_.begin(), largestFirst_.end(),
                     [&size](const Unit& a, const Unit& b) { return size(a) > size(b); });
  }

  GangDecision run(const std::vector<TopologyGroup>* within, const Pause& pause) {
    if (members_.empty()) return {};
    if (within == nullptr) {
      (void)allIn(nullptr);
      return std::move(result_);
    }
    bool first = true;
    for (const TopologyGroup* group : inTurn(*within)) {
      if (!std::exchange(first, false) && pause) pause();
      if (allIn(group)) return std::move(result_);
    }
    if (!result_.lacking) result_.lacking.emplace();
    return std::move(result_);
  }

 private:
  using Unit = std::vector<std::size_t>;  ///< members that one pod uses
  static constexpr std::span<const std::size_t> kNobody{};

  std::vector<const TopologyGroup*> inTurn(const std::vector<TopologyGroup>& within) const {
    std::vector<const TopologyGroup*> turn;
    turn.reserve(within.size());
    for (const TopologyGroup& group : within) turn.push_back(&group);
    const std::string liked = scheduler::decide(cluster_, members_.front().request, members_.front().suits).node;
    const auto first = std::find_if(turn.begin(), turn.end(), [&liked](const TopologyGroup* group) {
      return std::find(group->nodes.begin(), group->nodes.end(), liked) != group->nodes.end();
    });
    if (first != turn.end()) std::rotate(turn.begin(), first, first + 1);
    return turn;
  }

  bool allIn(const TopologyGroup* group) {
    return allIn(group, inOrder_) || (largestFirst_ != inOrder_ && allIn(group, largestFirst_));
  }

  bool allIn(const TopologyGroup* group, const std::vector<Unit>& order) {
    std::optional<InGroup> inGroup;
    if (group != nullptr) inGroup.emplace(cluster_, *group);
    decisions_.assign(members_.size(), {});
    placed_.clear();
    on_.clear();
    asked_.clear();
    std::optional<QuotaExcess> excess;
    std::optional<std::size_t> lacks;
    for (const Unit& unit : order)
      if ((lacks = unitIn(unit, inGroup, excess))) break;
    const auto placed = placed_;
    const std::size_t within = lacks ? placed.size() : withinQuotas(placed, excess);
    takeBack(0);
    if (!lacks && within < placed.size()) lacks = placed[within];
    if (lacks) {
      fellShort({*lacks, within, group ? group->value : std::string(), std::move(excess)});
      return false;
    }
    result_ = {std::move(decisions_), group ? group->value : std::string(), std::nullopt};
    return true;
  }

  /// All of one pod's, on one node. Else nothing of them is placed, and the answer is the one that lacks it where most fit.
  std::optional<std::size_t> unitIn(const Unit& unit, std::optional<InGroup>& inGroup,
                                    std::optional<QuotaExcess>& excess) {
    std::set<std::string, std::less<>> tried;
    std::optional<std::size_t> lacks;
    const std::size_t before = placed_.size();
    while (true) {
      for (const std::size_t i : unit) {
        decisions_[i] = one(i, inGroup, tried, excess);
        if (!decisions_[i].fits) {
          lacks = std::max(lacks.value_or(i), i);
          break;
        }
        take(i);
      }
      if (placed_.size() == before + unit.size()) {
        excess.reset();  // what kept them from other nodes
        return std::nullopt;
      }
      if (placed_.size() == before) return lacks;
      tried.insert(decisions_[unit.front()].node);
      takeBack(before);
    }
  }

  /// Null: any node.
  NodePredicate nodesFor(std::size_t i, const std::set<std::string, std::less<>>& tried) const {
    const GangMember& member = members_[i];
    if (!member.hasRoom && tried.empty()) return member.suits;
    return [this, &member, &tried](std::string_view node) {
      if (tried.contains(node) || (member.suits && !member.suits(node))) return false;
      const auto there = on_.find(node);
      return !member.hasRoom || member.hasRoom(node, there == on_.end() ? kNobody : there->second);
    };
  }

  /// excess: why not, if it would be given something but for the quotas.
  Decision one(std::size_t i, std::optional<InGroup>& inGroup, const std::set<std::string, std::less<>>& tried,
               std::optional<QuotaExcess>& excess) {
    const GangMember& member = members_[i];
    const NodePredicate suits = nodesFor(i, tried);
    Request asks = member.request;
    if (member.with) {
      const std::string& node = decisions_[*member.with].node;
      if (!asks.pinnedNode.empty() && asks.pinnedNode != node) return {};
      asks.pinnedNode = node;
    }
    const auto decided = [&](const Request& request) {
      return inGroup ? inGroup->decide(suits, request) : scheduler::decide(cluster_, request, suits);
    };
    if (!member.claim) return decided(asks);
    Request within = asks;
    within.quota = book_.rooms(*member.claim, asked_);
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
    for (const Placement& p : decisions_[i].placements)
      cluster_.take(p.ref(), uids_[i], p.charged, std::exchange(ofNode, {}));
    if (members_[i].claim) asked_.push_back({*members_[i].claim, partsOf(cluster_, decisions_[i])});
    on_[decisions_[i].node].push_back(i);
    placed_.push_back(i);
  }

  /// Those placed after the first so many.
  void takeBack(std::size_t kept) {
    while (placed_.size() > kept) {
      const std::size_t i = placed_.back();
      for (const Placement& p : decisions_[i].placements) cluster_.giveBack(p.ref(), uids_[i]);
      if (members_[i].claim) asked_.pop_back();
      on_[decisions_[i].node].pop_back();
      placed_.pop_back();
    }
  }

  /// How many of those placed are within the quotas together. The filter on cards can't tell where a total is divided, or
  /// where a node's cards are of several types.
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

  void fellShort(GangShort lacking) {
    if (!result_.lacking || lacking.fit > result_.lacking->fit) result_.lacking = std::move(lacking);
  }

  Cluster& cluster_;
  const std::vector<GangMember>& members_;
  const QuotaBook& book_;
  std::vector<std::string> uids_;
  std::vector<Unit> inOrder_, largestFirst_;
  // Of the try that is being made.
  std::vector<Decision> decisions_;
  std::vector<std::size_t> placed_;                                  ///< one after the other
  std::map<std::string, std::vector<std::size_t>, std::less<>> on_;  ///< who is placed on a node
  std::vector<QuotaAsked> asked_;                                    ///< by those that are placed
  GangDecision result_;
};

}  // namespace

GangDecision decideGang(Cluster& cluster, const std::vector<GangMember>& members,
                        const std::vector<TopologyGroup>* within, const QuotaBook& book, const Pause& pause) {
  return Gathering(cluster, members, book).run(within, pause);
}

}  // namespace egpu::scheduler
