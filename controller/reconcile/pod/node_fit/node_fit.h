// Whether a node suits a pod, as far as this controller chooses nodes, with kube-scheduler's semantics: the filters of
// resources.h, affinity.h, taints.h and volumes.h together, and the score among those that pass. kube-scheduler has the
// last word: what it refuses for reasons that aren't modelled here (other pods' affinity, topology spread, host ports,
// extended resources, volumes still to be made) comes back as a cleared allocation or is not placed in time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/core/objects.h"
#include "controller/cache/node_usage.h"

namespace egpu::reconcile {

/// Empty, or why the node never suits the pod as the two are: name, cordon, readiness, selector, affinity, taints,
/// volumes. For people, said of one or many ("cordoned", "not labelled zone=x as the pod selects"). Pure.
std::string nodeUnsuitable(const core::Pod& pod, const std::vector<core::NodeSelector>& volumes,
                           const core::Node& node);

/// What counts for a node among those that suit, before kube-scheduler's normalisation.
struct NodeScore {
  int64_t preferred = 0;  ///< Σ weights of preferred affinity
  int64_t avoided = 0;    ///< taints of effect PreferNoSchedule
};
NodeScore scoreOf(const core::Pod& pod, const core::Node& node);
/// kube-scheduler's sum of the two plugins with its default weights, each first brought to 0…100 over the nodes that
/// suit: 0 to 500, in the order of `scores`. Pure.
std::vector<int64_t> normalised(const std::vector<NodeScore>& scores);

}  // namespace egpu::reconcile
