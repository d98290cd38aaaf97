#include "controller/scheduler/preempt.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <tuple>

#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/split.h"
#include "controller/scheduler/state/fill.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

/// What is lost with holders, in the order in which it counts. Sums of it are compared as it is.
struct Loss {
  int64_t priority = 0;
  int64_t age = 0;     ///< −since
  int64_t amount = 0;  ///< what they hold, in millionths of cards
  auto operator<=>(const Loss&) const = default;
  Loss operator+(const Loss& other) const {
    return {priority + other.priority, age + other.age, amount + other.amount};
  }
  Loss operator*(int64_t n) const { return {priority * n, age * n, amount * n}; }
};
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

/// How many go and what is lost with them: the order of sets.
struct Cost {
  int64_t holders = 0;
  Loss loss;
  auto operator<=>(const Cost&) const = default;
};

/// Where holders are looked for: one card, or all of a node's.
struct Place {
  Cost bound;  ///< no set here costs less
  NodeId node = kNone;
  CardId card = kNone;  ///< kNone: anywhere on the node
};

class Preempting {
 public:
  Preempting(const Cluster& cluster, const Request& request, const NodePredicate& suits, const MayGo& mayGo,
             int64_t limit, const Pause& pause, const Settles& settles, const StandingOf& standing)
      : state_(cluster.state()),
        request_(request),
        suits_(suits),
        mayGo_(mayGo),
        needs_(state_, request),
        left_(limit),
        pause_(pause),
        settles_(settles),
        standing_(standing),
        cluster_(cluster) {}

  Preemption run() {
    if (Decision now = decide(cluster_, request_, suits_); now.fits) {
      best_ = {true, now.node, {}, now, true};
      return std::move(best_);
    }
    copy_ = cluster_;
    std::vector<Place> places = allPlaces();
    std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.bound < b.bound; });
    for (const Place& place : places) {
      if (best_.possible && bestCost_ < place.bound) break;
      if (best_.possible && left_ <= 0) {
        cutAt_ = std::min(cutAt_, place.bound.holders);
        break;
      }
      search(place);
    }
    best_.exact = bestCost_.holders <= cutAt_;
    return std::move(best_);
  }

 private:
  /// One of several that might go.
  struct Holder {
    const std::string* device = nullptr;
    const std::vector<Holding>* holdings = nullptr;
    Loss loss{};
  };

  /// The least that can be lost where so much is held. Whose priority and age it is, is not known beforehand.
  Loss leastLoss(int64_t amount) const { return standing_ ? Loss{kLeast, kLeast, amount} : Loss{0, 0, amount}; }

  bool pinned(CardId id) const {
    const auto& names = request_.pinnedCards;
    return names.empty() || std::find(names.begin(), names.end(), state_.cardName(id)) != names.end();
  }

  /// The fewest of these, each worth so much, that add up to what is lacking: the largest first.
  static int64_t fewest(std::vector<int64_t> each, int64_t lacking) {
    std::sort(each.begin(), each.end(), std::greater<>());
    int64_t n = 0;
    for (std::size_t i = 0; lacking > 0 && i < each.size(); ++i, ++n) lacking -= each[i];
    return n;
  }

  /// What at least must go from a card.
  Cost boundOf(CardId id, const Need& need) const {
    const CardRecord& card = state_.cards[id];
    const int64_t claims = card.claims();
    if (request_.wholeCards)
      return {claims, leastLoss(std::max<int64_t>(0, fillOf(state_.usedOf(id), state_.capacityOf(id)) - 2 * claims))};
    const Amount free = card.free();
    const Amount lacking{std::max<int64_t>(0, need.charged.core - free.core),
                         std::max<int64_t>(0, need.charged.memory - free.memory)};
    std::vector<int64_t> cores, memories;
    state_.eachTake(id, [&](std::string_view, const Amount& charged, const NodeAmount&) {
      cores.push_back(charged.core);
      memories.push_back(charged.memory);
    });
    // Shares are rounded down, each holder's and what is lacking: two millionths each are not held against anybody.
    Cost bound{std::max(fewest(std::move(cores), lacking.core), fewest(std::move(memories), lacking.memory)),
               leastLoss(std::max<int64_t>(0, fillOf(lacking, state_.capacityOf(id)) - 2 * claims))};
    if (request_.maxClaimsPerCard > 0) bound.holders = std::max(bound.holders, claims - request_.maxClaimsPerCard + 1);
    return bound;
  }

  std::vector<Place> allPlaces() {
    std::vector<Place> places;
    const auto wanted = static_cast<std::size_t>(request_.cards);
    for (const auto& [name, id] : state_.nodesByName()) {
      const NodeRecord& node = state_.nodes[id];
      if (!node.offered() || node.cards.size() < wanted || (suits_ && !suits_(name))) continue;
      if (!request_.pinnedNode.empty() && name != request_.pinnedNode) continue;
      std::vector<Place> here;
      for (CardId c : node.cards) {
        const CardRecord& card = state_.cards[c];
        const Need& need = needs_.of(card.type);
        if (card.healthy && need.possible() && pinned(c)) here.push_back({boundOf(c, need), id, c});
      }
      const bool split = divides(request_);
      if (here.empty() || (!split && here.size() < wanted)) continue;
      if (request_.cards == 1 && !split && nodeBelowLimit(node, request_) && nodeHasRoom(node, request_)) {
        places.insert(places.end(), here.begin(), here.end());
        continue;
      }
      // Holders may span cards, and anybody's going helps a node at its own limits: of the cards that are needed only
      // the costliest tells how many must go at least.
      Place all{{0, leastLoss(0)}, id, kNone};
      if (!split) {
        std::stable_sort(here.begin(), here.end(), [](const Place& a, const Place& b) { return a.bound < b.bound; });
        all.bound = {here[wanted - 1].bound.holders, leastLoss(0)};
      }
      places.push_back(all);
    }
    return places;
  }

  std::vector<Holder> holdersAt(const Place& place, const Holdings& holdings) const {
    std::vector<Holder> holders;
    for (const auto& [device, of] : holdings) {
      if (mayGo_ && !mayGo_(device)) continue;
      Holder holder{&device, &of};
      if (standing_) {
        const Standing standing = standing_(device);
        holder.loss = {standing.priority, -standing.since, 0};
      }
      bool concerned = place.card == kNone;
      for (const Holding& each : of) {
        const CardId id = state_.findCard(each.card);
        concerned = concerned || id == place.card;
        holder.loss.amount += fillOf(each.charged, state_.capacityOf(id));
      }
      if (concerned) holders.push_back(holder);
    }
    // Small ones first: among sets of equal number the cheapest is met early, and cuts off the rest.
    std::stable_sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) { return a.loss < b.loss; });
    return holders;
  }

  void search(const Place& place) {
    const std::string node(state_.nodes[place.node].name);
    const Holdings holdings = holdingsOn(cluster_, node);
    const std::vector<Holder> holders = holdersAt(place, holdings);
    here_ = request_;
    here_.pinnedNode = node;
    for (const Holder& each : holders) scheduler::release(*copy_, *each.device, *each.holdings);
    const bool any = fits();
    for (const Holder& each : holders) scheduler::hold(*copy_, *each.device, *each.holdings);
    if (!any) return;
    found_ = false;
    const auto most = static_cast<int64_t>(holders.size());
    for (int64_t n = std::max<int64_t>(1, place.bound.holders); n <= most && !found_; ++n) {
      if (best_.possible && bestCost_.holders < n) return;
      if (combinations(most, n) > left_) {
        cutAt_ = std::min(cutAt_, n);
        spare(node, holders);
        return;
      }
      chosen_.clear();
      choose(node, holders, 0, n, {});
    }
  }

  /// m over n, or more than there are decisions left.
  int64_t combinations(int64_t m, int64_t n) const {
    __int128 product = 1;
    for (int64_t i = 1; i <= n; ++i) {
      product = product * (m - n + i) / i;
      if (product > left_) return left_ + 1;
    }
    return static_cast<int64_t>(product);
  }

  /// All sets of n more holders from `from` on.
  void choose(const std::string& node, const std::vector<Holder>& holders, std::size_t from, int64_t n,
              const Loss& loss) {
    if (n == 0) {
      if (fits()) keep(node, {static_cast<int64_t>(chosen_.size()), loss});
      return;
    }
    for (std::size_t i = from; i + static_cast<std::size_t>(n) <= holders.size(); ++i) {
      const Holder& each = holders[i];
      // The others cost no less than this one: nothing cheaper from here on.
      if (best_.possible && Cost{static_cast<int64_t>(chosen_.size()) + n, loss + each.loss * n} > bestCost_) return;
      chosen_.push_back(&each);
      scheduler::release(*copy_, *each.device, *each.holdings);
      choose(node, holders, i + 1, n - 1, loss + each.loss);
      scheduler::hold(*copy_, *each.device, *each.holdings);
      chosen_.pop_back();
    }
  }

  /// Too many sets to try: all go, then each stays that can be spared, those who hold least first, so that few remain.
  void spare(const std::string& node, std::vector<Holder> holders) {
    std::stable_sort(holders.begin(), holders.end(),
                     [](const Holder& a, const Holder& b) { return a.loss.amount < b.loss.amount; });
    for (const Holder& each : holders) scheduler::release(*copy_, *each.device, *each.holdings);
    chosen_.clear();
    Loss loss;
    for (const Holder& each : holders) {
      scheduler::hold(*copy_, *each.device, *each.holdings);
      if (fits()) continue;
      scheduler::release(*copy_, *each.device, *each.holdings);
      chosen_.push_back(&each);
      loss = loss + each.loss;
    }
    if (fits()) keep(node, {static_cast<int64_t>(chosen_.size()), loss});
    for (const Holder* each : chosen_) scheduler::hold(*copy_, *each->device, *each->holdings);
  }

  bool fits() {
    if (pause_) pause_();
    --left_;
    decision_ = decide(*copy_, here_);
    return decision_.fits;
  }

  void keep(const std::string& node, Cost cost) {
    if (best_.possible && std::tie(bestCost_, best_.node) <= std::tie(cost, node)) {
      found_ = found_ || !settles_;  // that this one will do is not known
      return;
    }
    std::vector<Victim> victims;
    for (const Holder* each : chosen_) victims.push_back({*each->device, *each->holdings});
    std::sort(victims.begin(), victims.end(), [](const Victim& a, const Victim& b) { return a.device < b.device; });
    if (settles_) {
      left_ -= cost.holders;
      if (!settles_(*copy_, decision_, victims)) return;
    }
    found_ = true;
    best_.possible = true;
    best_.node = node;
    best_.decision = decision_;
    best_.victims = std::move(victims);
    bestCost_ = cost;
  }

  const Cluster::State& state_;
  const Request& request_;
  const NodePredicate& suits_;
  const MayGo& mayGo_;
  Needs needs_;
  int64_t left_;  ///< decisions
  const Pause& pause_;
  const Settles& settles_;
  const StandingOf& standing_;
  const Cluster& cluster_;
  std::optional<Cluster> copy_;
  Request here_;  ///< the request, pinned to the node that is searched
  std::vector<const Holder*> chosen_;
  bool found_ = false;
  Decision decision_;
  int64_t cutAt_ = std::numeric_limits<int64_t>::max();  ///< sets of so many holders were not all tried somewhere
  Cost bestCost_;
  Preemption best_;
};

}  // namespace

Preemption preempt(const Cluster& cluster, const Request& request, const NodePredicate& suits, const MayGo& mayGo,
                   int64_t limit, const Pause& pause, const Settles& settles, const StandingOf& standing) {
  return Preempting(cluster, request, suits, mayGo, limit, pause, settles, standing).run();
}

}  // namespace egpu::scheduler
