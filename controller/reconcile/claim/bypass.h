// Programs that evade the limiter of a claim. The agent of the node reports them in status.bypassed of the card; here
// the pod is evicted if the class asks for it.
#pragma once

#include <optional>
#include <stop_token>

#include "controller/cache/stores.h"
#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/result.h"

namespace egpu::reconcile {

/// Returns the bypass on the first of the device's cards that reports one.
std::optional<v1alpha::IsolationBypass> bypassOf(const cache::Stores& stores, const cache::Gpu& device);

/// (B1) Evicts the pod of the bypass if the class's parameter onBypass is "evict". Nullopt: there is nothing to do.
/// After a crash, or a refusal by a disruption budget, the step is repeated as long as the agent reports the bypass.
std::optional<Outcome> evictBypassing(const ClaimContext& context, const cache::Claim& claim, const cache::Gpu& device,
                                      std::stop_token stop);

}  // namespace egpu::reconcile
