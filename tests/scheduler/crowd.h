// Random clusters with claims, for tests of questions about a whole situation.
#pragma once

#include <string>
#include <vector>

#include "controller/scheduler/what_if.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {

/// Returns the observable state of a cluster as text: equal texts mean equal clusters.
std::string dump(const Cluster& cluster);

struct CrowdShape {
  int64_t nodes = 5;
  int64_t cardsPerNode = 4;
  int64_t claims = 12;       ///< claims that are tried; those that don't fit wait
  bool limits = true;        ///< limits on claims per card and node, CPU and memory of the node
  bool severalCards = true;  ///< some claims take several cards
  bool everyPolicy = true;   ///< any available policy; false: binpack on both tiers
  bool modes = false;        ///< requests with isolation modes, and nodes with and without the limiter
};

class Crowd {
 public:
  Crowd(uint64_t seed, CrowdShape shape);

  /// Returns a random request to this cluster.
  Request request();

  Situation situation;
  Random random;

 private:
  CrowdShape shape_;
};

}  // namespace egpu::scheduler::testing
