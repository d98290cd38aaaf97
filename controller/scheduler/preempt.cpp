#include "controller/scheduler/preempt.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/split.h"
#include "controller/scheduler/choice/victim_cost.h"
#include "controller/scheduler/choice/victim_places.h"
#include "controller/scheduler/score_nodes.h"
#include "controller/scheduler/state/fill.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

using Loss = VictimLoss;
using Cost = VictimCost;

using Place = VictimPlace;

/// Arguments of a search besides cluster and request. References must outlive it.
struct SearchArguments {
  const SearchScope& among;
  const NodePredicate& suits;
  const IsEvictable& isEvictable;
  const Pause& pause;
  const AcceptVictims& accept;
  const EvictionRankOf& standing;
  const StopCondition& enough;
  VictimPlaces* known = nullptr;  ///< null = no earlier search
};

/// Searches victims for a request that does not fit as it is.
class Preempting {
 public:
  /// Trial allocations and releases are undone. left: decisions left.
  Preempting(Cluster& cluster, const Request& request, const SearchArguments& given, int64_t& left)
      : cluster_(cluster),
        state_(cluster.state()),
        request_(request),
        given_(given),
        needs_(state_, request),
        left_(left) {}

  Preemption run() {
    VictimPlaces own;
    VictimPlaces& places = given_.known != nullptr ? *given_.known : own;
    findPlaces(places);
    for (const Place& place : places.all) {
      // Neither this place nor a later one can be better.
      if (best_.possible && Rank(bestCost_, best_.node) <= rankOf(place)) break;
      if (!suits(place.node)) continue;
      if (enough()) break;
      if (best_.possible && left_ <= 0) {
        cutAt_ = std::min(cutAt_, place.bound.holders);
        break;
      }
      search(place);
    }
    best_.exact = !enough_ && (best_.possible ? bestCost_.holders <= cutAt_ : !cutShort());
    return std::move(best_);
  }

 private:
  using Rank = std::tuple<const Cost&, std::string_view>;
  Rank rankOf(const Place& place) const { return {place.bound, state_.nodes[place.node].name}; }

  /// True if an acceptable set may have been missed: only the set that spare() leaves was tested.
  bool cutShort() const { return given_.accept && cutAt_ != std::numeric_limits<int64_t>::max(); }

  /// A possible victim.
  struct PossibleVictim {
    const std::string* device = nullptr;
    const std::vector<Holding>* holdings = nullptr;
    Loss loss{};
  };

  /// Returns the minimum number of these amounts whose sum covers `lacking`: the largest first.
  static int64_t fewest(std::vector<int64_t> each, int64_t lacking) {
    std::sort(each.begin(), each.end(), std::greater<>());
    int64_t n = 0;
    for (std::size_t i = 0; lacking > 0 && i < each.size(); ++i, ++n) lacking -= each[i];
    return n;
  }

  /// Lower bound of the number and amounts of victims on a card, whatever their rank.
  Cost boundOf(CardId id, const Need& need) const {
    const CardRecord& card = state_.cards[id];
    const int64_t claims = card.claims();
    if (request_.wholeCards || hasOtherMode(card, need.mode))
      return {claims, {0, 0, std::max<int64_t>(0, fillOf(state_.usedOf(id), state_.capacityOf(id)) - 2 * claims)}};
    const Amount free = card.free();
    const Amount lacking{std::max<int64_t>(0, need.charged.core - free.core),
                         std::max<int64_t>(0, need.charged.memory - free.memory)};
    std::vector<int64_t> cores, memories;
    state_.eachTake(id, [&](std::string_view, const Amount& charged, const NodeAmount&) {
      cores.push_back(charged.core);
      memories.push_back(charged.memory);
    });
    // Shares are rounded down, each holder's and the lacking one. The bound allows two millionths per holder for this.
    Cost bound{std::max(fewest(std::move(cores), lacking.core), fewest(std::move(memories), lacking.memory)),
               {0, 0, std::max<int64_t>(0, fillOf(lacking, state_.capacityOf(id)) - 2 * claims)}};
    if (request_.maxClaimsPerCard > 0) bound.holders = std::max(bound.holders, claims - request_.maxClaimsPerCard + 1);
    return bound;
  }

  /// Losses of the evictable holders on one node.
  struct Losses {
    std::vector<Loss> all;
    std::map<CardId, std::vector<Loss>> onCard;
  };

  Losses lossesOn(NodeId id) const {
    Losses losses;
    for (const auto& [device, holdings] : holdingsOn(cluster_, state_.nodes[id].name)) {
      const auto holder = holderOf(device, holdings);
      if (!holder) continue;
      losses.all.push_back(holder->loss);
      for (const Holding& each : holdings) losses.onCard[state_.findCard(each.card)].push_back(holder->loss);
    }
    return losses;
  }

  /// Raises a bound to the least loss of bound.holders holders. Returns false if there are fewer holders.
  static bool raise(Cost& bound, std::vector<Loss> losses) {
    const auto n = static_cast<std::size_t>(std::max<int64_t>(1, bound.holders));
    if (losses.size() < n) return false;
    const auto end = losses.begin() + static_cast<std::ptrdiff_t>(n);
    std::nth_element(losses.begin(), end - 1, losses.end());
    bound = {static_cast<int64_t>(n), std::accumulate(losses.begin(), end, Loss{})};
    return true;
  }

  /// Returns the places on that node with enough evictable holders, each bounded by their losses.
  std::vector<Place> withLosses(std::vector<Place> here, NodeId id) const {
    Losses losses = lossesOn(id);
    std::erase_if(here, [&losses](Place& place) {
      return !raise(place.bound, place.card == kNone ? losses.all : losses.onCard[place.card]);
    });
    return here;
  }

  void findPlaces(VictimPlaces& places) {
    const auto before = [this](const Place& a, const Place& b) { return rankOf(a) < rankOf(b); };
    std::vector<Place> found;
    if (places.known && places.request == request_) {
      std::erase_if(places.all, [&places](const Place& place) { return places.changed.contains(place.node); });
      for (const NodeId id : places.changed) addPlaces(id, found);
    } else {
      places.all.clear();
      eachNode([&](NodeId id) { addPlaces(id, found); });
    }
    std::stable_sort(found.begin(), found.end(), before);
    const auto old = static_cast<std::ptrdiff_t>(places.all.size());
    places.all.insert(places.all.end(), found.begin(), found.end());
    std::inplace_merge(places.all.begin(), places.all.begin() + old, places.all.end(), before);
    if (given_.known == nullptr) return;
    places.request = request_;
    places.known = true;
    places.changed.clear();
  }

  void eachNode(const std::function<void(NodeId)>& visit) const {
    if (given_.among.nodes == nullptr) {
      for (const auto& [name, id] : state_.nodesByName()) visit(id);
    } else {
      for (const auto& name : *given_.among.nodes)
        if (const NodeId id = state_.findNode(name); id != kNone) visit(id);
    }
  }

  /// Evaluates the predicate once per node.
  bool suits(NodeId id) {
    if (!given_.suits) return true;
    const auto [known, fresh] = suits_.try_emplace(id, false);
    if (fresh) known->second = given_.suits(state_.nodes[id].name);
    return known->second;
  }

  void addPlaces(NodeId id, std::vector<Place>& places) {
    const NodeRecord& node = state_.nodes[id];
    const auto wanted = static_cast<std::size_t>(request_.cards);
    if (!request_.pinnedNode.empty() && node.name != request_.pinnedNode) return;
    if (!node.offered() || node.cards.size() < wanted || (given_.among.goes && !given_.among.goes(node.name))) return;
    if (given_.known == nullptr && !suits(id)) return;
    std::vector<Place> here;
    for (CardId c : node.cards) {
      const CardRecord& card = state_.cards[c];
      const Need& need = needs_.of(card.type);
      if (card.healthy && need.possible() && offersMode(card, need.mode) && isAllowedByPin(state_, request_, c))
        here.push_back({boundOf(c, need), id, c});
    }
    const bool split = divides(request_);
    if (here.empty() || (!split && here.size() < wanted)) return;
    if (request_.cards == 1 && !split && isBelowClaimLimit(node, request_) && nodeHasCapacity(node, request_)) {
      add(std::move(here), id, places);
      return;
    }
    // At the node's own limits the release of any holder helps. The lower bound comes from the cards that are needed.
    Place all{{}, id, kNone};
    if (!split) {
      std::stable_sort(here.begin(), here.end(), [](const Place& a, const Place& b) { return a.bound < b.bound; });
      const int64_t sum = std::accumulate(here.begin(), here.begin() + static_cast<std::ptrdiff_t>(wanted), int64_t{0},
                                          [](int64_t n, const Place& each) { return n + each.bound.holders; });
      const int64_t widest = wanted > 1 ? widestOn(id) : 1;
      all.bound = {std::max(here[wanted - 1].bound.holders, (sum + widest - 1) / widest), {}};
    }
    add({all}, id, places);
  }

  /// Returns the largest number of this node's cards that one holder has.
  int64_t widestOn(NodeId id) const {
    std::size_t widest = 1;
    for (const auto& [device, holdings] : holdingsOn(cluster_, state_.nodes[id].name))
      widest = std::max(widest, holdings.size());
    return static_cast<int64_t>(widest);
  }

  void add(std::vector<Place> here, NodeId id, std::vector<Place>& places) const {
    if (given_.standing) here = withLosses(std::move(here), id);  // without ranks, only amounts are known
    places.insert(places.end(), here.begin(), here.end());
  }

  /// Returns the holder, or nullopt if it cannot be preempted.
  std::optional<PossibleVictim> holderOf(const std::string& device, const std::vector<Holding>& holdings) const {
    if (given_.isEvictable && !given_.isEvictable(device)) return std::nullopt;
    PossibleVictim holder{&device, &holdings};
    if (given_.standing) {
      const EvictionRank standing = given_.standing(device);
      holder.loss = {standing.priority, -standing.since, 0};
    }
    for (const Holding& each : holdings)
      holder.loss.amount += fillOf(each.charged, state_.capacityOf(state_.findCard(each.card)));
    return holder;
  }

  std::vector<PossibleVictim> holdersAt(const Place& place, const Holdings& holdings) const {
    std::vector<PossibleVictim> holders;
    for (const auto& [device, of] : holdings) {
      const bool concerned = place.card == kNone || std::any_of(of.begin(), of.end(), [&](const Holding& each) {
                               return state_.findCard(each.card) == place.card;
                             });
      if (!concerned) continue;
      if (const auto holder = holderOf(device, of)) holders.push_back(*holder);
    }
    // Cheap holders first: then the cheapest set of each size is found early, and excludes the rest.
    std::stable_sort(holders.begin(), holders.end(),
                     [](const PossibleVictim& a, const PossibleVictim& b) { return a.loss < b.loss; });
    return holders;
  }

  void search(const Place& place) {
    const std::string node(state_.nodes[place.node].name);
    const Holdings holdings = holdingsOn(cluster_, node);
    const std::vector<PossibleVictim> holders = holdersAt(place, holdings);
    here_ = request_;
    here_.pinnedNode = node;
    for (const PossibleVictim& each : holders) scheduler::release(cluster_, *each.device, *each.holdings);
    const bool any = fits();
    for (const PossibleVictim& each : holders) scheduler::hold(cluster_, *each.device, *each.holdings);
    if (!any) return;
    found_ = false;
    const auto max = static_cast<int64_t>(holders.size());
    for (int64_t n = std::max<int64_t>(1, place.bound.holders); n <= max && !found_; ++n) {
      if (best_.possible && bestCost_.holders < n) return;
      if (combinations(max, n) > left_) {
        cutAt_ = std::min(cutAt_, n);
        spare(node, holders);
        return;
      }
      chosen_.clear();
      choose(node, holders, 0, n, {});
    }
  }

  /// Returns the binomial coefficient m over n, or more than the decisions left.
  int64_t combinations(int64_t m, int64_t n) const {
    __int128 product = 1;
    for (int64_t i = 1; i <= n; ++i) {
      product = product * (m - n + i) / i;
      if (product > left_) return left_ + 1;
    }
    return static_cast<int64_t>(product);
  }

  /// Tries all sets with n more holders from index `from` on.
  void choose(const std::string& node, const std::vector<PossibleVictim>& holders, std::size_t from, int64_t n,
              const Loss& loss) {
    if (n == 0) {
      if (fits()) consider(node, {static_cast<int64_t>(chosen_.size()), loss});
      return;
    }
    for (std::size_t i = from; i + static_cast<std::size_t>(n) <= holders.size(); ++i) {
      const PossibleVictim& each = holders[i];
      // Later holders cost at least as much, so no cheaper set follows.
      if (best_.possible && Cost{static_cast<int64_t>(chosen_.size()) + n, loss + each.loss * n} > bestCost_) return;
      chosen_.push_back(&each);
      scheduler::release(cluster_, *each.device, *each.holdings);
      choose(node, holders, i + 1, n - 1, loss + each.loss);
      scheduler::hold(cluster_, *each.device, *each.holdings);
      chosen_.pop_back();
    }
  }

  /// For too many sets to try: releases all holders, then restores each that can be spared, the smallest first.
  void spare(const std::string& node, std::vector<PossibleVictim> holders) {
    std::stable_sort(holders.begin(), holders.end(),
                     [](const PossibleVictim& a, const PossibleVictim& b) { return a.loss.amount < b.loss.amount; });
    for (const PossibleVictim& each : holders) scheduler::release(cluster_, *each.device, *each.holdings);
    chosen_.clear();
    Loss loss;
    for (const PossibleVictim& each : holders) {
      scheduler::hold(cluster_, *each.device, *each.holdings);
      if (fits()) continue;
      scheduler::release(cluster_, *each.device, *each.holdings);
      chosen_.push_back(&each);
      loss = loss + each.loss;
    }
    if (fits()) consider(node, {static_cast<int64_t>(chosen_.size()), loss});
    for (const PossibleVictim* each : chosen_) scheduler::hold(cluster_, *each->device, *each->holdings);
  }

  bool enough() { return enough_ = enough_ || (given_.enough && given_.enough()); }

  bool fits() {
    if (enough()) return false;
    if (given_.pause) given_.pause();
    --left_;
    decision_ = decide(cluster_, here_);
    return decision_.fits;
  }

  void consider(const std::string& node, Cost cost) {
    if (best_.possible && std::tie(bestCost_, best_.node) <= std::tie(cost, node)) {
      found_ = found_ || !given_.accept;  // its acceptance was not tested
      return;
    }
    std::vector<Victim> victims;
    for (const PossibleVictim* each : chosen_) victims.push_back({*each->device, *each->holdings});
    std::sort(victims.begin(), victims.end(), [](const Victim& a, const Victim& b) { return a.device < b.device; });
    if (given_.accept) {
      left_ -= cost.holders;
      if (!given_.accept(cluster_, decision_, victims)) return;
    }
    found_ = true;
    best_.possible = true;
    best_.node = node;
    best_.decision = decision_;
    best_.victims = std::move(victims);
    bestCost_ = cost;
  }

  Cluster& cluster_;
  const Cluster::State& state_;
  const Request& request_;
  const SearchArguments& given_;
  Needs needs_;
  int64_t& left_;        ///< decisions left
  bool enough_ = false;  ///< the search must end
  Request here_;         ///< the request, pinned to the current node
  std::vector<const PossibleVictim*> chosen_;
  std::unordered_map<NodeId, bool> suits_;  ///< cached results of `suits`
  bool found_ = false;
  Decision decision_;
  int64_t cutAt_ = std::numeric_limits<int64_t>::max();  ///< least size of sets that were not all tried
  Cost bestCost_;
  Preemption best_;
};

/// Returns the result for a decision without victims; possible if it fits.
Preemption asItIs(Decision now) {
  Preemption none;
  none.possible = now.fits;
  none.node = now.node;
  none.decision = std::move(now);
  return none;
}

}  // namespace

Preemption preempt(const Cluster& cluster, const Request& request, const NodePredicate& suits,
                   const IsEvictable& isEvictable, int64_t limit, const Pause& pause, const AcceptVictims& accept,
                   const EvictionRankOf& standing, const StopCondition& enough) {
  if (auto now = asItIs(decide(cluster, request, suits)); now.possible) return now;
  Cluster copy = cluster;
  return Preempting(copy, request, {{}, suits, isEvictable, pause, accept, standing, enough}, limit).run();
}

Preemption preemptIn(Cluster& cluster, const Request& request, const SearchScope& among, const NodePredicate& suits,
                     const IsEvictable& isEvictable, int64_t& left, const EvictionRankOf& standing,
                     const StopCondition& enough, const AcceptVictims& accept, VictimPlaces* known) {
  --left;
  auto now = asItIs(among.nodes == nullptr ? decide(cluster, request, suits)
                                           : decideAmong(cluster, request, *among.nodes, suits));
  if (now.possible && (!accept || accept(cluster, now.decision, {}))) return now;
  return Preempting(cluster, request, {among, suits, isEvictable, {}, accept, standing, enough, known}, left).run();
}

}  // namespace egpu::scheduler
