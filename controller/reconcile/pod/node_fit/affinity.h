// Node selector and node affinity, with the semantics of kube-scheduler's NodeAffinity plugin. Pure.
#pragma once

#include <cstdint>

#include "api/core/objects.h"

namespace egpu::reconcile {

/// True if all requirements of the term hold; a term without any matches nothing. A requirement with an unknown
/// operator, or with a value that is not a number where one is needed, does not hold.
bool matches(const core::NodeSelectorTerm& term, const core::Node& node);
/// True if any term matches; without terms, nothing matches.
bool matches(const core::NodeSelector& selector, const core::Node& node);
/// True if every key of the pod's nodeSelector is a label of the node with that value.
bool selects(const core::StringMap& nodeSelector, const core::Node& node);
/// Returns Σ weights of the preferred terms that match; an empty term weighs nothing.
int64_t preference(const core::Pod& pod, const core::Node& node);

}  // namespace egpu::reconcile
