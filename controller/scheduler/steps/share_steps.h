// Steps of the shares that a kind of device can have. Internal to scheduler/.
#pragma once

#include <optional>

#include "controller/scheduler/request.h"

namespace egpu::scheduler {

/// Limits of a provisioner whose driver divides cards in steps.
struct ShareSteps {
  int64_t core = 0;              ///< milli-cards
  int64_t memory = 0;            ///< bytes
  int64_t maxClaimsPerCard = 0;  ///< maximum number of shares of a card
};

/// Returns the steps of the class's provisioner, or null if its shares can have any amount.
const ShareSteps* stepsOf(const v1alpha::ElasticGPUClass& cls);

/// Checks the class's parameters that could result in amounts between two steps.
std::optional<Refusal> checkClassSteps(const v1alpha::ElasticGPUClass& cls);

/// Checks the amounts of a request for shares, and limits the claims of its cards. Whole cards have no steps. Example
/// for steps of 5 %: gpu-core 12 is refused with "nearest: 10 or 15".
std::optional<Refusal> applySteps(const v1alpha::ElasticGPUClaim& claim, const v1alpha::ElasticGPUClass& cls,
                                  Request& request);

}  // namespace egpu::scheduler
