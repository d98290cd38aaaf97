// Taints and tolerations, with the semantics of kube-scheduler's TaintToleration and NodeUnschedulable plugins. Pure.
#pragma once

#include <cstdint>

#include "api/core/objects.h"

namespace egpu::reconcile {

/// True if the toleration matches. An empty effect matches all effects, an empty key with the operator Exists all keys;
/// no operator means Equal.
bool tolerates(const core::Toleration& toleration, const core::Taint& taint);
/// Returns the first taint that excludes the pod (NoSchedule, NoExecute); null if there is none.
const core::Taint* untolerated(const core::Pod& pod, const core::Node& node);
/// Number of PreferNoSchedule taints that the pod does not tolerate.
int64_t taintsToAvoid(const core::Pod& pod, const core::Node& node);
/// True if the node is cordoned and the pod does not tolerate that.
bool cordonedFor(const core::Pod& pod, const core::Node& node);

}  // namespace egpu::reconcile
