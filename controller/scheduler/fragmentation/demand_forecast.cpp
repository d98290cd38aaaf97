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
int64_t untilNextLook(int64_t seen, std::size_t nodes) {
  const int64_t most = std::max<int64_t>(100, static_cast<int64_t>(nodes) / 16);
  return std::clamp<int64_t>(seen / 4, 1, most);
}

}  // namespace

struct DemandForecast::Kept {
  Demand demand;
  std::shared_ptr<const Prices> prices;
  int64_t nextLook = 0;  // value of Demand::seen at the next check
  bool owed = false;     // the learned demand came with prices, which must be computed
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
    nextLook = demand.seen() + untilNextLook(demand.seen(), state.nodesByName().size());
    scores.reset();
  }
};

DemandForecast::DemandForecast() : kept_(std::make_unique<Kept>()) {}
DemandForecast::~DemandForecast() = default;
DemandForecast::DemandForecast(const DemandForecast& other) : DemandForecast() { *this = other; }
DemandForecast& DemandForecast::operator=(const DemandForecast& other) {
  if (this == &other) return *this;
  kept_->demand = other.kept_->demand;
  kept_->prices = other.kept_->prices;
  kept_->nextLook = other.kept_->nextLook;
  kept_->owed = other.kept_->owed;
  kept_->nodeStates = {};
  kept_->scores.reset();
  return *this;
}

void DemandForecast::observe(const Cluster::State& state, const Request& request) {
  Kept& kept = *kept_;
  kept.demand.observe(request);
  const NodePolicy* policy = findNodePolicy(request.nodePolicy);
  if (policy == nullptr || policy->order != NodeOrder::fragmentation) return;
  const int64_t seen = kept.demand.seen();
  bool due = !kept.prices || !kept.prices->knowsTypes(state.types.size()) || seen == Demand::kMin;
  if (!due && seen >= kept.nextLook) {
    kept.read(state);
    due = kept.prices->outdated(state, kept.nodeStates, kept.demand);
    kept.nextLook = seen + untilNextLook(seen, state.nodesByName().size());
  }
  if (due) kept.price(state);
}

void DemandForecast::learn(const Learned& learned) {
  kept_->demand.learn(learned);
  kept_->owed = learned.priced;
}

void DemandForecast::reprice(const Cluster::State& state) {
  Kept& kept = *kept_;
  if (!kept.prices && !std::exchange(kept.owed, false)) return;
  kept.prices.reset();  // otherwise demand that changed in small steps would be compared with old values
  kept.price(state);
}

void DemandForecast::changed(NodeId node) { kept_->nodeStates.changed(node); }

const Demand& DemandForecast::demand() const { return kept_->demand; }

const Prices* DemandForecast::prices() const { return kept_->prices.get(); }

NodeId DemandForecast::best(const Cluster::State& state, const Request& request, CardChoice& cards,
                            const CardPolicy& policy, const NodePredicate& suits) const {
  kept_->read(state);
  if (!kept_->scores) kept_->scores.emplace(kept_->prices);
  return kept_->scores->best(state, kept_->nodeStates, request, cards, policy, suits);
}

}  // namespace egpu::scheduler::fragmentation
