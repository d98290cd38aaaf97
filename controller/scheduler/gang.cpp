#include "controller/scheduler/gang.h"

#include <algorithm>
#include <numeric>
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

  Decision decide(const GangMember& member, Request request) {
    if (!known_ || member.suits || !(request == *known_)) {
      look(member, request);
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
  void look(const GangMember& member, const Request& request) {
    nodes_.clear();
    for (const std::string& node : group_.nodes)
      if (!member.suits || member.suits(node)) nodes_.push_back(node);
    verdicts_ = judge(cluster_, {request}, nodes_);
    known_.reset();
    if (!member.suits) known_ = request;
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
      : cluster_(cluster), members_(members), book_(book), inOrder_(members.size()) {
    for (std::size_t i = 0; i < members.size(); ++i) uids_.push_back("gang/" + std::to_string(i));
    std::iota(inOrder_.begin(), inOrder_.end(), std::size_t{0});
    largestFirst_ = inOrder_;
    const auto size = [&members](std::size_t i) {
      const Request& r = members[i].request;
      return std::tuple(r.wholeCards, r.perCard.core * r.cards, r.perCard.memory * r.cards, r.cards);
    };
    std::stable_sort(largestFirst_.begin(), largestFirst_.end(),
                     [&size](std::size_t a, std::size_t b) { return size(a) > size(b); });
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
  std::vector<const TopologyGroup*> inTurn(const std::vector<TopologyGroup>& within) const {
    std::vector<const TopologyGroup*> turn;
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

  bool allIn(const TopologyGroup* group, const std::vector<std::size_t>& order) {
    std::optional<InGroup> inGroup;
    if (group != nullptr) inGroup.emplace(cluster_, *group);
    std::vector<Decision> decisions(members_.size());
    asked_.clear();
    std::optional<QuotaExcess> excess;
    std::size_t placed = 0;
    for (; placed < order.size(); ++placed) {
      const std::size_t i = order[placed];
      decisions[i] = one(i, inGroup, excess);
      if (!decisions[i].fits) break;
      take(i, decisions[i]);
      if (members_[i].claim) asked_.push_back({*members_[i].claim, partsOf(cluster_, decisions[i])});
    }
    for (std::size_t k = placed; k-- > 0;)
      for (const Placement& p : decisions[order[k]].placements) cluster_.giveBack(p.ref(), uids_[order[k]]);
    if (placed == order.size()) placed = withinQuotas(order, excess);
    if (placed < order.size()) {
      fellShort({order[placed], placed, group ? group->value : std::string(), std::move(excess)});
      return false;
    }
    result_ = {std::move(decisions), group ? group->value : std::string(), std::nullopt};
    return true;
  }

  /// excess: why not, if it would be given something but for the quotas.
  Decision one(std::size_t i, std::optional<InGroup>& inGroup, std::optional<QuotaExcess>& excess) {
    const GangMember& member = members_[i];
    const auto decided = [&](const Request& request) {
      return inGroup ? inGroup->decide(member, request) : scheduler::decide(cluster_, request, member.suits);
    };
    if (!member.claim) return decided(member.request);
    Request within = member.request;
    within.quota = book_.rooms(*member.claim, asked_);
    Decision decision = decided(within);
    if (decision.fits) return decision;
    if (const Decision outside = decided(member.request); outside.fits) {
      auto asked = asked_;
      asked.push_back({*member.claim, partsOf(cluster_, outside)});
      excess = book_.excess(asked);
    }
    return decision;
  }

  void take(std::size_t i, const Decision& decision) {
    NodeAmount ofNode{members_[i].request.cpuMilli, members_[i].request.podMemory};
    for (const Placement& p : decision.placements)
      cluster_.take(p.ref(), uids_[i], p.charged, std::exchange(ofNode, {}));
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
  std::vector<std::size_t> inOrder_, largestFirst_;
  std::vector<QuotaAsked> asked_;  ///< by those that are placed
  GangDecision result_;
};

}  // namespace

GangDecision decideGang(Cluster& cluster, const std::vector<GangMember>& members,
                        const std::vector<TopologyGroup>* within, const QuotaBook& book, const Pause& pause) {
  return Gathering(cluster, members, book).run(within, pause);
}

}  // namespace egpu::scheduler
