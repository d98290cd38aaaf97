// State of the fragmentation policy: the expected demand, and the prices of the free capacity. The demand is learned
// from every request. Prices are computed when the first request uses the policy, and again when demand or free
// capacity changed by a tenth, which is checked periodically. Decisions depend only on the cluster and the sequence of
// observed requests. Internal to scheduler/.
#pragma once

#include <cstdint>
#include <memory>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/state/ids.h"

namespace egpu::scheduler {
class CardChoice;
struct CardPolicy;
class Demand;
}  // namespace egpu::scheduler

namespace egpu::scheduler::fragmentation {

class Prices;

class DemandForecast {
 public:
  DemandForecast();
  ~DemandForecast();
  DemandForecast(const DemandForecast&);  ///< copies demand and prices, but no caches
  DemandForecast& operator=(const DemandForecast&);

  void observe(const Cluster::State& state, const Request& request);
  /// Implement the functions of the same names in Cluster.
  void learn(const Learned& learned);
  void reprice(const Cluster::State& state);
  /// Marks a node that was added, removed or changed in its free capacity, cards, health or readiness.
  void changed(NodeId node);

  const Demand& demand() const;
  /// Null before prices are computed; best() requires prices.
  const Prices* prices() const;
  /// Returns the node with the least loss for the request; ties go to the lowest name. kNone if no node fits.
  NodeId best(const Cluster::State& state, const Request& request, CardChoice& cards, const CardPolicy& policy,
              const NodePredicate& suits) const;

 private:
  struct CachedPrices;
  std::unique_ptr<CachedPrices> cache_;
};

}  // namespace egpu::scheduler::fragmentation
