// Selects the condition that a claim's status.reason and status.message summarise. Standard library only.
#pragma once

#include <string_view>
#include <vector>

#include "api/core/meta.h"
#include "api/v1alpha/keys.h"

namespace egpu::v1alpha {

/// Returns the most important condition: the first type in the order below that reports a problem, or that reports that
/// a claim being deleted is in use. AccessLost and IsolationBypassed report a problem if they are True, the others if
/// they are False. Null if there is none. The pointer is into `conditions`.
inline const core::Condition* obstacle(const std::vector<core::Condition>& conditions) {
  for (const std::string_view type :
       {"Accepted", "Bound", "ResourceClaimReady", "Healthy", "AccessLost", "IsolationBypassed", "Resized"}) {
    const bool isTrue = type == "AccessLost" || type == "IsolationBypassed";
    for (const auto& condition : conditions)
      if (condition.type == type &&
          (condition.status == (isTrue ? "True" : "False") || condition.reason == keys::reason::kInUse))
        return &condition;
  }
  return nullptr;
}

}  // namespace egpu::v1alpha
