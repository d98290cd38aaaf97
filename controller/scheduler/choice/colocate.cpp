#include "controller/scheduler/choice/colocate.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "controller/scheduler/choice/node_load.h"
#include "controller/scheduler/node_policy/node_policy.h"
#include "controller/scheduler/remedies/each_node.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

constexpr std::size_t kNodesAtOnce = 64;  ///< nodes tried between two pauses

class Trying {
 public:
  Trying(Cluster& cluster, const std::vector<Request>& requests, const NodePredicate& suits, const Pause& pause)
      : cluster_(cluster), requests_(requests), suits_(suits), pause_(pause), pinned_(requests) {
    for (std::size_t i = 0; i < requests.size(); ++i) uids_.push_back("together/" + std::to_string(i));
    inOrder_.resize(requests.size());
    std::iota(inOrder_.begin(), inOrder_.end(), std::size_t{0});
    largestFirst_ = inOrder_;
    const auto size = [&requests](std::size_t i) {
      const Request& r = requests[i];
      return std::tuple(r.wholeCards, r.perCard.core * r.cards, r.perCard.memory * r.cards, r.cards);
    };
    std::stable_sort(largestFirst_.begin(), largestFirst_.end(),
                     [&size](std::size_t a, std::size_t b) { return size(a) > size(b); });
  }

  Together run() {
    Together together;
    together.alone.assign(requests_.size(), false);
    if (requests_.empty()) return together;
    Decision best = decide(cluster_, requests_.front(), suits_);
    if (requests_.size() == 1) {
      together.alone = {best.fits};
      if (best.fits) together.decisions.push_back(std::move(best));
      return together;
    }
    if (best.fits && allOn(best.node, together.decisions, &best)) return together;
    const bool pinned = !requests_.front().pinnedNode.empty();  // then no other node needs to be tried
    for (std::size_t i = 0; i < requests_.size(); ++i)
      together.alone[i] = decide(cluster_, requests_[i], pinned ? suits_ : NodePredicate()).fits;
    if (pinned) return together;
    if (std::find(together.alone.begin(), together.alone.end(), false) != together.alone.end()) return together;
    std::string node = preferred(together.alone);
    while (!node.empty() && !allOn(node, together.decisions)) node = any();  // the capacity was taken in a pause
    return together;
  }

  std::vector<Decision> runOn(std::string_view node) {
    std::vector<Decision> decisions;
    allOn(node, decisions);
    return decisions;
  }

 private:
  /// Score of a node by the first request's policy: higher is better; ties go to the lower name.
  using Liking = std::tuple<int64_t, int64_t>;

  /// first: the decision for the first request on the empty trial, if known.
  bool allOn(std::string_view node, std::vector<Decision>& decisions, const Decision* first = nullptr) {
    return allOn(node, inOrder_, decisions, first) || allOn(node, largestFirst_, decisions, nullptr);
  }

  bool allOn(std::string_view node, const std::vector<std::size_t>& order, std::vector<Decision>& decisions,
             const Decision* first) {
    decisions.assign(requests_.size(), {});
    std::size_t placed = 0;
    for (; placed < order.size(); ++placed) {
      const std::size_t i = order[placed];
      decisions[i] = placed == 0 && first != nullptr ? *first : on(node, i);
      if (!decisions[i].fits) break;
      if (requests_[i].adminAccess) continue;
      for (const Placement& p : decisions[i].placements) cluster_.take(p, uids_[i]);
    }
    const bool all = placed == order.size();
    while (placed-- > 0) {
      const std::size_t i = order[placed];
      if (requests_[i].adminAccess) continue;
      for (const Placement& p : decisions[i].placements) cluster_.giveBack(p.ref(), uids_[i]);
    }
    if (!all) decisions.clear();
    return all;
  }

  Decision on(std::string_view node, std::size_t i) {
    const std::string& pinned = requests_[i].pinnedNode;
    if (!pinned.empty() && pinned != node) return {};
    pinned_[i].pinnedNode = node;
    return decide(cluster_, pinned_[i]);
  }

  /// Tries every node. Records in `alone` which requests fit on some node by themselves.
  std::string preferred(std::vector<bool>& alone) {
    alone.assign(requests_.size(), false);
    std::string best;
    Liking max;
    std::vector<Decision> decisions;
    eachNode(
        cluster_.state(), pause_,
        [&](std::string_view name, const NodeRecord& node) {
          if (!node.offered() || (suits_ && !suits_(name))) return;
          bool each = true;
          for (std::size_t i = 0; i < requests_.size(); ++i) {
            const bool fits = on(name, i).fits;
            each = each && fits;
            if (fits) alone[i] = true;
          }
          if (!each || !allOn(name, decisions)) return;
          const Liking score = likingOf(name);
          if (!best.empty() && score <= max) return;
          best = name;
          max = score;
        },
        kNodesAtOnce);
    return best;
  }

  /// Returns the first node that can hold all requests. No pause is called after it is found.
  std::string any() {
    std::string found;
    std::vector<Decision> decisions;
    const Pause pause = [&] {
      if (found.empty() && pause_) pause_();
    };
    eachNode(
        cluster_.state(), pause,
        [&](std::string_view name, const NodeRecord& node) {
          if (!found.empty() || !node.offered() || (suits_ && !suits_(name))) return;
          if (allOn(name, decisions)) found = name;
        },
        kNodesAtOnce);
    return found;
  }

  Liking likingOf(std::string_view name) const {
    const Cluster::State& state = cluster_.state();
    const NodeId id = state.findNode(name);
    const NodePolicy* policy = findNodePolicy(requests_.front().nodePolicy);
    const int64_t fill = policy->walk == Walk::fullestFirst ? state.index.fillOf(id) : -state.index.fillOf(id);
    return {loadOf(state, id, *policy, requests_.front().memoryWeight), fill};
  }

  Cluster& cluster_;
  const std::vector<Request>& requests_;
  const NodePredicate& suits_;
  const Pause& pause_;
  std::vector<Request> pinned_;
  std::vector<std::string> uids_;
  std::vector<std::size_t> inOrder_, largestFirst_;
};

}  // namespace

Together decideTogether(Cluster& cluster, const std::vector<Request>& requests, const NodePredicate& suits,
                        const Pause& pause) {
  return Trying(cluster, requests, suits, pause).run();
}

std::vector<Decision> togetherOn(Cluster& cluster, const std::vector<Request>& requests, std::string_view node) {
  return Trying(cluster, requests, {}, {}).runOn(node);
}

void copyNode(const Cluster& from, std::string_view node, Cluster& to) {
  const auto info = from.describeNode(node);
  if (!info) return;
  to.upsertNode(*info);
  for (const auto& card : from.cardsOf(node)) {
    to.upsertCard({card, *from.describe(card), from.findCard(card).healthy});
    const auto isolation = from.findCard(card).isolation;
    for (const auto& taken : from.allocationsOn(card)) to.take(card, taken.uid, taken.charged, taken.ofNode, isolation);
  }
}

}  // namespace egpu::scheduler
