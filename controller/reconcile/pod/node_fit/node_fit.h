// Whether a node suits a pod, as far as this controller chooses nodes, with kube-scheduler's semantics: combines the
// filters of affinity.h, taints.h and volumes.h, and scores the nodes that pass. resources.h is checked by the callers.
// kube-scheduler has the last word: if it refuses a node for reasons that are not modelled here (other pods' affinity,
// topology spread, host ports, extended resources, volumes still to be created), it clears the allocation or does not
// place the pod in time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/core/objects.h"
#include "controller/cache/node_usage.h"

namespace egpu::reconcile {

/// Returns why the node does not suit the pod as the two are now: name, cordon, readiness, selector, affinity, taints,
/// volumes. Empty if it suits. For people, as a predicate of one or many nodes ("cordoned", "not labelled zone=x as the
/// pod selects"). Pure.
std::string nodeUnsuitable(const core::Pod& pod, const std::vector<core::NodeSelector>& volumes,
                           const core::Node& node);

/// Values that rank a node among those that suit, before kube-scheduler's normalisation.
struct NodeScore {
  int64_t preferred = 0;  ///< Σ weights of preferred affinity
  int64_t avoided = 0;    ///< taints of effect PreferNoSchedule
};
NodeScore scoreOf(const core::Pod& pod, const core::Node& node);
/// Returns kube-scheduler's sum of the two plugins with its default weights, each first scaled to 0…100 over the nodes
/// that suit: 0 to 500, in the order of `scores`. Pure.
std::vector<int64_t> normalised(const std::vector<NodeScore>& scores);

}  // namespace egpu::reconcile
