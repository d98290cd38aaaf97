// Where a Pod with all of its claims would go: on one node, on a copy of the cluster.
#pragma once

#include <string>
#include <vector>

#include "controller/cache/stores.h"
#include "controller/scheduler/simulate.h"
#include "controller/server/what_if_pod.h"

namespace egpu::server {

struct PodSimulation {
  std::string pod;   ///< "namespace/name"
  std::string note;  ///< what is left out of account; may be empty
  bool fits = false;
  std::string node;  ///< if it fits
  std::string why;   ///< if it doesn't
  struct OfClaim {
    WhatIfSubject subject;
    bool bound = false;                ///< it is where it is; nothing was simulated
    scheduler::Simulation simulation;  ///< beside the claims before it
  };
  std::vector<OfClaim> claims;
};

/// Claims that are bound say which node it must be. Those of Immediate classes are bound without a look at the pod,
/// each for itself; the pod must be able to run where they are. Of the others the first one's filter and ranking are
/// those of nodes that have room for all of them; the further ones go where it goes. Each is held to what quotas
/// leave beside the ones before it. onlyNode: empty = any.
PodSimulation simulatePod(const cache::Stores& stores, const scheduler::Cluster& cluster, const PodSubject& subject,
                          const scheduler::QuotaBook& quotas, const std::string& onlyNode,
                          const scheduler::SimulationLimits& limits);

}  // namespace egpu::server
