// Losses of access: running containers of a claim have lost its GPU. The agents report them in status.accessLost, of
// the card for MPS (controller/agent/sharing/access_losses.h), of the device for remote GPUs
// (controller/agent/cards/remote_devices.h).
#pragma once

#include <optional>

#include "controller/cache/stores.h"

namespace egpu::reconcile {

/// Returns the loss on the first of the device's cards that reports one; without cards, that on the first node that
/// reports one and runs a pod of the claim, because the agent of a node that is gone can't withdraw its report.
std::optional<v1alpha::AccessLoss> accessLossOf(const cache::Stores& stores, const cache::Claim& claim,
                                                const cache::Gpu& device);

}  // namespace egpu::reconcile
