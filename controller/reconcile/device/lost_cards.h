// Cards of a device that can no longer serve it: gone, being deleted, failed, or moved to another node.
#pragma once

#include <string>

#include "controller/cache/stores.h"

namespace egpu::reconcile {

/// Lists all lost cards with the reasons: "cards gpu-a, gpu-b are gone; card gpu-c is being removed". Empty if the
/// cache has all cards as the device needs them.
std::string lostCards(const cache::Stores& stores, const cache::Gpu& device);

}  // namespace egpu::reconcile
