// Creates the API object of a card.
#pragma once

#include "api/v1alpha/types.h"

namespace egpu::v1alpha {

/// Returns the object that the node's agent publishes for this card: named after its uuid, with labels and the ledger's
/// finalizer.
ElasticGPU cardObject(const Card& card);

}  // namespace egpu::v1alpha
