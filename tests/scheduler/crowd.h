// Clusters with claims on them, made at random, for questions that are asked of a whole situation.
#pragma once

#include <string>
#include <vector>

#include "controller/scheduler/what_if.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {

/// Everything that can be seen of a cluster, as text: equal text, equal cluster.
std::string dump(const Cluster& cluster);

struct CrowdShape {
  int64_t nodes = 5;
  int64_t cardsPerNode = 4;
  int64_t claims = 12;       ///< that are tried; those that don't fit wait
  bool limits = true;        ///< of claims per card and node, CPU and memory of the node
  bool severalCards = true;  ///< some claims take several cards
  bool everyPolicy = true;   ///< any that there is; else binpack on both tiers
};

class Crowd {
 public:
  Crowd(uint64_t seed, CrowdShape shape);

  /// Any request that this cluster might be asked for.
  Request request();

  Situation situation;
  Random random;

 private:
  CrowdShape shape_;
};

}  // namespace egpu::scheduler::testing
