// Signs that the claim on a device will end, read from the objects around it, for reservations: a node is not reserved
// for a claim if holders that show no sign of ending would have to leave it first.
//
//   sign      meaning, from the device, its claim and its pods
//   leaving   The device or its claim is being deleted, the device is a victim or leaves an incomplete gang, or all its
//             pods are being deleted.
//   stays     A pod of a ReplicaSet, ReplicationController, StatefulSet or DaemonSet, which replace pods that end, or a
//             static pod of a node; or a device that is retained without a claim (Released, Available).
//   ends      A pod of any other controller, such as a Job, PyTorchJob or Workflow.
//   unknown   Pods without a controller, or no pods: the caller decides by their age.
#pragma once

#include "api/core/objects.h"
#include "controller/cache/stores.h"

namespace egpu::cache {

enum class HolderSign { leaving, stays, ends, unknown };

HolderSign signOf(const Stores& stores, const Gpu& device);

/// True if the pod's controller replaces it when it ends.
bool isReplaced(const core::Pod& pod);

}  // namespace egpu::cache
