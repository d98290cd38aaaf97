#include "controller/scheduler/score_nodes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "controller/scheduler/choice/card_choice.h"
#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/node_load.h"
#include "controller/scheduler/choice/split.h"
#include "controller/scheduler/fragmentation/node_scoring.h"
#include "controller/scheduler/node_policy/node_policy.h"
#include "controller/scheduler/quota/within.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

constexpr int64_t kFills = int64_t{1} << 22;  ///< greater than every fill (fill.h)

/// Evaluates one request on many nodes, each as decide() does for a pinned node.
class Judging {
 public:
  Judging(const Cluster& cluster, const Request& request)
      : state_(cluster.state()),
        request_(request),
        needs_(state_, request),
        nodePolicy_(findNodePolicy(request.nodePolicy)),
        cardPolicy_(findCardPolicy(request.cardPolicy)) {
    if (!serves()) return;
    cards_.emplace(state_, request, *cardPolicy_, needs_);
    const auto* prices = state_.outlook.prices();
    if (nodePolicy_->order != NodeOrder::fragmentation || prices == nullptr) return;
    counts_.emplace(prices->shapes());
    scorer_.emplace(state_, request, *cards_, *prices, *counts_);
  }

  bool fits(NodeId id) {
    if (!cards_) return false;
    const NodeRecord& node = state_.nodes[id];
    return node.offered() && isBelowClaimLimit(node, request_) && nodeHasCapacity(node, request_) && cards_->fits(node);
  }

  /// Score of a node that fits. For several requests, decideTogether() uses the fill where fragmentation uses the
  /// expected demand.
  int64_t score(NodeId id, bool several) {
    if (scorer_ && !several) {
      fragmentation::readNode(state_, id, node_);
      return scorer_->score(id, fragmentation::NodeCopies(node_, *counts_));
    }
    const auto& index = state_.index;
    const int64_t fill = nodePolicy_->walk == Walk::fullestFirst ? index.fillOf(id) : -index.fillOf(id);
    return loadOf(state_, id, *nodePolicy_, request_.memoryWeight) * kFills + fill;
  }

 private:
  bool serves() const {
    const auto& cards = request_.pinnedCards;
    return nodePolicy_ != nullptr && cardPolicy_ != nullptr && request_.cards >= 0 &&
           static_cast<int64_t>(cards.size()) <= request_.cards;
  }

  const Cluster::State& state_;
  const Request& request_;
  Needs needs_;
  const NodePolicy* const nodePolicy_;
  const CardPolicy* const cardPolicy_;
  std::optional<CardChoice> cards_;
  // Only for the fragmentation policy, once it has prices.
  std::optional<fragmentation::FitCounts> counts_;
  std::optional<fragmentation::NodeScorer> scorer_;
  fragmentation::NodeState node_;
};

/// Returns for each node whether it can hold this request alone.
std::vector<bool> alone(const Cluster& cluster, const Request& request, const std::vector<NodeId>& ids) {
  std::vector<bool> fit(ids.size(), false);
  Judging judging(cluster, request);
  const auto& state = cluster.state();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == kNone) continue;
    const auto& pinned = request.pinnedNode;
    fit[i] = (pinned.empty() || state.nodes[ids[i]].name == pinned) && judging.fits(ids[i]);
  }
  return fit;
}

/// True if the quotas' filter on cards is exact: for one request with fixed amounts per card, all choices of cards on a
/// node that passes are within the quotas.
bool filtered(const std::vector<Request>& requests) { return requests.size() == 1 && !divides(requests.front()); }

class JudgingAll {
 public:
  JudgingAll(Cluster& cluster, const std::vector<Request>& requests, const QuotaBook& book,
             const std::vector<QuotaClaim>& claims)
      : cluster_(cluster), requests_(requests), pinned_(requests), book_(book), claims_(claims) {}

  std::vector<NodeVerdict> run(std::span<const std::string_view> nodes, Judge what) {
    const auto& state = cluster_.state();
    std::vector<NodeId> ids;
    ids.reserve(nodes.size());
    for (const auto name : nodes) ids.push_back(state.findNode(name));
    auto fit = alone(cluster_, requests_.front(), ids);
    for (std::size_t r = 1; r < requests_.size(); ++r) {
      const auto next = alone(cluster_, requests_[r], ids);
      for (std::size_t i = 0; i < fit.size(); ++i) fit[i] = fit[i] && next[i];
    }
    if (!claims_.empty())
      restrictTo(nodes, ids, fit);
    else if (requests_.size() > 1)
      for (std::size_t i = 0; i < fit.size(); ++i)
        fit[i] = fit[i] && !togetherOn(cluster_, requests_, nodes[i]).empty();
    return verdicts(ids, fit, what);
  }

 private:
  /// Clears nodes on which the requests exceed the quotas.
  void restrictTo(std::span<const std::string_view> nodes, const std::vector<NodeId>& ids, std::vector<bool>& fit) {
    std::vector<bool> sure(fit.size(), false);
    if (filtered(requests_)) {
      auto within = requests_.front();
      within.quota = book_.remaining(claims_.front());
      sure = alone(cluster_, within, ids);
    }
    for (std::size_t i = 0; i < fit.size(); ++i) {
      if (!fit[i] || sure[i]) continue;
      for (auto& request : pinned_) request.pinnedNode = nodes[i];
      fit[i] = !decideWithin(cluster_, book_, claims_, pinned_).decisions.empty();
    }
  }

  std::vector<NodeVerdict> verdicts(const std::vector<NodeId>& ids, const std::vector<bool>& fit, Judge what) const {
    std::vector<NodeVerdict> all(ids.size());
    Judging first(cluster_, requests_.front());
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (fit[i]) all[i] = {true, what == Judge::fit ? 0 : first.score(ids[i], requests_.size() > 1)};
    return all;
  }

  Cluster& cluster_;
  const std::vector<Request>& requests_;
  std::vector<Request> pinned_;
  const QuotaBook& book_;
  const std::vector<QuotaClaim>& claims_;
};

}  // namespace

std::vector<NodeVerdict> scoreNodes(Cluster& cluster, const std::vector<Request>& requests,
                                    std::span<const std::string_view> nodes, const QuotaBook& book,
                                    const std::vector<QuotaClaim>& claims, Judge what) {
  if (requests.empty()) return std::vector<NodeVerdict>(nodes.size(), NodeVerdict{true, 0});
  return JudgingAll(cluster, requests, book, claims).run(nodes, what);
}

std::size_t highestScore(std::span<const std::string_view> nodes, std::span<const NodeVerdict> verdicts) {
  std::size_t best = nodes.size();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!verdicts[i].fits) continue;
    if (best < nodes.size() && std::pair(-verdicts[best].score, nodes[best]) < std::pair(-verdicts[i].score, nodes[i]))
      continue;
    best = i;
  }
  return best;
}

Decision decideAmong(Cluster& cluster, Request request, std::span<const std::string> nodes,
                     const NodePredicate& suits) {
  std::vector<std::string_view> open;
  for (const std::string& node : nodes)
    if (!suits || suits(node)) open.push_back(node);
  const auto best = highestScore(open, scoreNodes(cluster, {request}, open));
  if (best == open.size()) return {};
  request.pinnedNode = open[best];
  return decide(cluster, request);
}

}  // namespace egpu::scheduler
