// What a pod's claims ask of a node that somebody else chooses: a scheduler with an extender.
#pragma once

#include <string>
#include <vector>

#include "api/core/objects.h"
#include "controller/cache/cluster_view.h"

namespace egpu::reconcile {

struct PodDemand {
  /// Not empty: nothing can be said now, and that ends by itself (a claim that is about to be bound): ask again.
  std::string later;
  /// Not empty: no node would do, whoever goes: somebody has to change something.
  std::string never;
  /// Not empty: only this one, where `fixedBy` is.
  std::string node, fixedBy;
  /// Those that are still to be placed: all of them together on one node. Empty: any node would do, or `node`.
  std::vector<cache::ClusterView::Ask> asks;
  /// Of each of `asks`, what else would do (spec.firstAvailable).
  std::vector<std::vector<scheduler::Request>> otherwise;
  /// Devices of claims among `asks` that stand on some node and are given up if the pod goes elsewhere.
  std::vector<std::string> devices;
  /// Nothing is asked: any node would do.
  bool any() const { return later.empty() && never.empty() && node.empty() && asks.empty(); }
};

/// The device is marked (V2), as its claim is to leave it: no pod is let go to it before that is over, or its mark is off.
bool isLeft(const cache::Gpu& device);

/// What else would do than `asks`, as scheduler::Combinations has it.
std::vector<std::vector<cache::ClusterView::Ask>> otherAsks(const PodDemand& demand);

/// v1alpha::claimNames(), then those that only annotations name.
std::vector<std::string> usedOrAnnotated(const core::Pod& pod);

}  // namespace egpu::reconcile
