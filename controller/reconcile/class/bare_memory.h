// A hint for claims whose gpu-memory is a bare whole number that no card can hold. YAML turns an unquoted 1e3 into the
// integer 1000, which counts GiB, so the mistake is not visible in the claim any more.
#pragma once

#include <string>

#include "controller/cache/stores.h"
#include "controller/scheduler/request.h"

namespace egpu::reconcile {

/// Returns an empty text unless gpu-memory is written without a suffix, counts GiB, and exceeds the largest card. A
/// total that is divided over cards gets no hint.
std::string bareMemoryHint(const cache::Stores& stores, const core::StringMap& requests,
                           const scheduler::Request& request);

}  // namespace egpu::reconcile
