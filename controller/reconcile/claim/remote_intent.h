// W1 of a claim of remote GPUs: the device, without cards and node.
#pragma once

#include "controller/cache/stores.h"
#include "controller/scheduler/request.h"

namespace egpu::reconcile {

/// Returns the device for the claim. Its capacity has the amounts that the claim requests. Its endpoint is empty until
/// W3b.
cache::Gpu remoteIntent(const cache::Claim& claim, const cache::Class& cls, const scheduler::Request& request);

/// True if the remote device has at least the requested amounts. A device that states no number of GPUs is one.
bool isLargeEnough(const cache::Gpu& remoteDevice, const scheduler::Request& request);

}  // namespace egpu::reconcile
