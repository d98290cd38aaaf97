// Classes of remote GPUs: their provisioner describes the source `remote`. A claim of such a class gets no card and no
// node, so no scheduling decision is made for it. Its provisioner gets the GPU from a pool (W3).
#pragma once

#include <optional>

#include "controller/cache/stores.h"
#include "controller/scheduler/request.h"

namespace egpu::reconcile {

bool isRemote(const cache::Stores& stores, const cache::Class& cls);
/// True if the claim's device is remote or, if it has none, its class is.
bool isRemote(const cache::Stores& stores, const cache::Claim& claim);

/// Returns why a class of remote GPUs cannot serve the claim, because the claim demands what only cards have. nullopt:
/// it can, or the class is not remote.
std::optional<scheduler::Refusal> remoteRefusal(const cache::Stores& stores, const cache::Claim& claim,
                                                const cache::Class& cls);
/// Returns the refusal of the first class parameter that describes cards. nullopt: there is none, or the class is not
/// remote.
std::optional<scheduler::Refusal> remoteParameterRefusal(const cache::Stores& stores, const cache::Class& cls);

}  // namespace egpu::reconcile
