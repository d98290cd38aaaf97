// Node selector and node affinity, as kube-scheduler's NodeAffinity plugin understands them. Pure.
#pragma once

#include <cstdint>

#include "api/core/objects.h"

namespace egpu::reconcile {

/// Requirements of a term all hold; a term without any matches nothing. An operator that isn't known, or a value that
/// isn't a number where one is needed, doesn't hold.
bool matches(const core::NodeSelectorTerm& term, const core::Node& node);
/// Terms are alternatives; without any, nothing matches.
bool matches(const core::NodeSelector& selector, const core::Node& node);
/// Every key of the pod's nodeSelector is a label of the node with that value.
bool selects(const core::StringMap& nodeSelector, const core::Node& node);
/// Σ weights of the preferred terms that match; an empty term weighs nothing.
int64_t preference(const core::Pod& pod, const core::Node& node);

}  // namespace egpu::reconcile
