// A card as an object.
#pragma once

#include "api/v1alpha/types.h"

namespace egpu::v1alpha {

/// The object of this card as its node's agent publishes it: named after its uuid, labelled, with the ledger's
/// finalizer.
ElasticGPU cardObject(const Card& card);

}  // namespace egpu::v1alpha
