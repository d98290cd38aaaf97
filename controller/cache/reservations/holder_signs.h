// What the objects around a device tell about its end, for reservations of nodes: a node is not reserved for a claim if
// holders that show no sign of ending would have to leave it first.
//
//   sign      from the device, its claim and its pods
//   leaving   the device or its claim is being deleted, it makes room for another claim, or all its pods are being deleted
//   stays     a pod of a ReplicaSet, ReplicationController, StatefulSet or DaemonSet, which replaces pods that end, or of
//             a node itself; a device that is kept without a claim (Released, Available)
//   ends      a pod of any other controller: a Job, a PyTorchJob, a Workflow
//   unknown   pods without a controller, or no pods: their age decides
#pragma once

#include "api/core/objects.h"
#include "controller/cache/stores.h"

namespace egpu::cache {

enum class HolderSign { leaving, stays, ends, unknown };

HolderSign signOf(const Stores& stores, const Gpu& device);

/// The pod's controller replaces it when it ends.
bool isReplaced(const core::Pod& pod);

}  // namespace egpu::cache
