#include "controller/scheduler/fragmentation/demand_forecast.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "controller/scheduler/fragmentation/node_states.h"
#include "controller/scheduler/fragmentation/prices.h"
#include "controller/scheduler/fragmentation/scores.h"
#include "controller/scheduler/node_policy/node_policy.h"
#include "controller/scheduler/state/demand.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler::fragmentation {
namespace {

/// Returns the number of requests until the next check whether prices are outdated. Small while few requests are known.
/// Large in large clusters, so that the cost of reading all node states is spread over many requests.
int64_t untilNextEvaluation(int64_t seen, std::size_t nodes) {
  const int64_t max = std::max<int64_t>(100, static_cast<int64_t>(nodes) / 16);
  return std::clamp<int64_t>(seen / 4, 1, max);
}

}  // namespace

struct DemandForecast::CachedPrices {
  Demand demand;
  std::shared_ptr<const Prices> prices;
  int64_t nextCheck = 0;  // value of Demand::seen at the next check
  bool owed = false;      // the learned demand came with prices, which must be computed
  // Caches.
  NodeStates nodeStates;
  std::optional<Scores> scores;  // computed with `prices`

  void read(const Cluster::State& state) {
    const NodeStates::Changes& changes = nodeStates.read(state);
    if (scores) scores->forget(changes);
  }
  void price(const Cluster::State& state) {
    read(state);
    prices = std::make_shared<const Prices>(state, nodeStates, demand, prices.get());
    nextCheck = demand.seen() + untilNextEvaluation(demand.seen(), state.nodesByName().size());
    scores.reset();
  }
};

DemandForecast::DemandForecast() : cache_(std::make_unique<CachedPrices>()) {}
DemandForecast::~DemandForecast() = default;
DemandForecast::DemandForecast(const DemandForecast& other) : DemandForecast() { *this = other; }
DemandForecast& DemandForecast::operator=(const DemandForecast& other) {
  if (this == &other) return *this;
  cache_->demand = other.cache_->demand;
  cache_->prices = other.cache_->prices;
  cache_->nextCheck = other.cache_->nextCheck;
  cache_->owed = other.cache_->owed;
  cache_->nodeStates = {};
  cache_->scores.reset();
  return *this;
}

void DemandForecast::observe(const Cluster::State& state, const Request& request) {
  CachedPrices& cache = *cache_;
  cache.demand.observe(request);
  const NodePolicy* policy = findNodePolicy(request.nodePolicy);
  if (policy == nullptr || policy->order != NodeOrder::fragmentation) return;
  const int64_t seen = cache.demand.seen();
  bool due = !cache.prices || !cache.prices->knowsTypes(state.types.size()) || seen == Demand::kMin;
  if (!due && seen >= cache.nextCheck) {
    cache.read(state);
    due = cache.prices->outdated(state, cache.nodeStates, cache.demand);
    cache.nextCheck = seen + untilNextEvaluation(seen, state.nodesByName().size());
  }
  if (due) cache.price(state);
}

void DemandForecast::learn(const Learned& learned) {
  cache_->demand.learn(learned);
  cache_->owed = learned.priced;
}

void DemandForecast::reprice(const Cluster::State& state) {
  CachedPrices& cache = *cache_;
  if (!cache.prices && !std::exchange(cache.owed, false)) return;
  cache.prices.reset();  // otherwise demand that changed in small steps would be compared with old values
  cache.price(state);
}

void DemandForecast::changed(NodeId node) { cache_->nodeStates.changed(node); }

const Demand& DemandForecast::demand() const { return cache_->demand; }

const Prices* DemandForecast::prices() const { return cache_->prices.get(); }

NodeId DemandForecast::best(const Cluster::State& state, const Request& request, CardChoice& cards,
                            const CardPolicy& policy, const NodePredicate& suits) const {
  cache_->read(state);
  if (!cache_->scores) cache_->scores.emplace(cache_->prices);
  return cache_->scores->best(state, cache_->nodeStates, request, cards, policy, suits);
}

}  // namespace egpu::scheduler::fragmentation
