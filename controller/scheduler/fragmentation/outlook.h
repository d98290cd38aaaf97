// What a cluster expects to be asked for, and what that makes its free cards worth: the state of the fragmentation
// policy. The demand is learned from every request; prices are made only once a request names the policy, and anew when
// what is asked for or what is free has moved on by a tenth, which is looked at now and then. So what is decided
// depends on the cluster and on the requests observed, in their order, and on nothing else. Internal to scheduler/.
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

class Outlook {
 public:
  Outlook();
  ~Outlook();
  Outlook(const Outlook&);  ///< takes over what was learned and the prices, but nothing that can be worked out again
  Outlook& operator=(const Outlook&);

  void observe(const Cluster::State& state, const Request& request);
  /// What Cluster does under these names.
  void learn(const Learned& learned);
  void reprice(const Cluster::State& state);
  /// A node came or went, or has more or less free, or its cards, health or readiness changed.
  void changed(NodeId node);

  const Demand& demand() const;
  /// Null until they were made: without, best() must not be called.
  const Prices* prices() const;
  /// The node that loses least by the request; of equal ones the lowest name. kNone: none fits.
  NodeId best(const Cluster::State& state, const Request& request, CardChoice& cards, const CardPolicy& policy,
              const NodePredicate& suits) const;

 private:
  struct Kept;
  std::unique_ptr<Kept> kept_;
};

}  // namespace egpu::scheduler::fragmentation
