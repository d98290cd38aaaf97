// Taints and tolerations, as kube-scheduler's TaintToleration and NodeUnschedulable plugins understand them. Pure.
#pragma once

#include <cstdint>

#include "api/core/objects.h"

namespace egpu::reconcile {

/// An empty effect matches all effects, an empty key with the operator Exists all keys; no operator means Equal.
bool tolerates(const core::Toleration& toleration, const core::Taint& taint);
/// The first taint that keeps the pod off (NoSchedule, NoExecute); null if there is none.
const core::Taint* untolerated(const core::Pod& pod, const core::Node& node);
/// How many taints ask the pod to go elsewhere if it can (PreferNoSchedule).
int64_t taintsToAvoid(const core::Pod& pod, const core::Node& node);
/// The node is cordoned and the pod does not tolerate that.
bool cordonedFor(const core::Pod& pod, const core::Node& node);

}  // namespace egpu::reconcile
