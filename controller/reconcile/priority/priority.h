// Whose turn it is: the priority of a claim.
#pragma once

#include <cstdint>
#include <string>

#include "controller/cache/stores.h"

namespace egpu::reconcile {

struct Priority {
  int64_t value = 0;
  bool preempts = true;      ///< others may have to make room for the claim
  std::string unknown = {};  ///< why its priorityClassName says nothing; `value` is then what it said last
};

/// Of its spec.priorityClassName; else the highest of its live pods; else of the default PriorityClass (of several the lowest, as
/// kube-apiserver does for pods), else 0.
/// Names that begin with "system-" count in kube-system only: a claim has no ResourceQuota that would keep others from them.
Priority priorityOf(const cache::Stores& stores, const cache::Claim& claim);

}  // namespace egpu::reconcile
