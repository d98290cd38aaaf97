// The priority of a claim.
#pragma once

#include <cstdint>
#include <string>

#include "controller/cache/stores.h"

namespace egpu::reconcile {

struct Priority {
  int64_t value = 0;
  bool preempts = true;      ///< the claim may preempt other claims
  std::string unknown = {};  ///< why its priorityClassName is invalid; `value` is then the last known one
};

/// Returns the priority of the claim's spec.priorityClassName; without one, the highest of its live pods; without pods,
/// that of the default PriorityClass (of several the lowest, as kube-apiserver does for pods), else 0. Names that begin
/// with "system-" are valid in kube-system only, because no ResourceQuota restricts their use by claims.
Priority priorityOf(const cache::Stores& stores, const cache::Claim& claim);

}  // namespace egpu::reconcile
