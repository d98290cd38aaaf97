// Whether a node suits a pod, as far as this controller chooses nodes: selector, required affinity, taints. (Resources:
// kube-scheduler has the last word; what it refuses comes back as a cleared allocation.)
#pragma once

#include <string>

#include "api/core/objects.h"

namespace egpu::reconcile {

/// Empty, or why not. Pure.
std::string nodeUnsuitable(const core::Pod& pod, const core::Node& node);
/// Terms are alternatives, requirements of a term all hold. Pure.
bool matches(const core::NodeSelector& selector, const core::Node& node);

}  // namespace egpu::reconcile
