// Simulates the placement of a Pod with all its claims on one node, on a copy of the cluster.
#pragma once

#include <string>
#include <vector>

#include "controller/cache/stores.h"
#include "controller/scheduler/simulate.h"
#include "controller/whatif/question/pod_subject.h"

namespace egpu::whatif {

struct PodSimulation {
  std::string pod;   ///< "namespace/name"
  std::string note;  ///< limits of the simulation, for people; may be empty
  bool fits = false;
  std::string node;  ///< set if the pod fits
  std::string why;   ///< reason why the pod does not fit
  struct OfClaim {
    Subject subject;
    bool bound = false;                ///< the claim has its device; no simulation was made for it
    scheduler::Simulation simulation;  ///< with the preceding claims of the pod placed
  };
  std::vector<OfClaim> claims;
};

/// Bound claims determine the node. Claims of Immediate classes are bound independently of the pod's constraints; the
/// pod must be able to run on their nodes. For the first of the remaining claims, filter and ranking consider only
/// nodes with capacity for all of them; the other claims follow it to its node. Each claim is limited to the quota that
/// the preceding claims leave. onlyNode: the only node to consider; empty = any.
PodSimulation simulatePod(const cache::Stores& stores, const scheduler::Cluster& cluster, const PodSubject& subject,
                          const scheduler::QuotaBook& quotas, const std::string& onlyNode,
                          const scheduler::SimulationLimits& limits);

}  // namespace egpu::whatif
