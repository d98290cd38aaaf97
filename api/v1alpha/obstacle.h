// What a claim's status.reason and status.message say for all its conditions. Standard library only.
#pragma once

#include <string_view>
#include <vector>

#include "api/core/meta.h"
#include "api/v1alpha/keys.h"

namespace egpu::v1alpha {

/// The condition that people should see first: the first in the order below that is False, or that says that a claim
/// being deleted is in use. Null if all is well. The pointer is into `conditions`.
inline const core::Condition* obstacle(const std::vector<core::Condition>& conditions) {
  for (const std::string_view type : {"Accepted", "Bound", "Carried", "Healthy", "Resized"})
    for (const auto& condition : conditions)
      if (condition.type == type && (condition.status == "False" || condition.reason == keys::reason::kInUse))
        return &condition;
  return nullptr;
}

}  // namespace egpu::v1alpha
