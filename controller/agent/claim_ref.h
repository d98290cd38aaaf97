// Reference to a ResourceClaim.
#pragma once

#include <string>

namespace egpu::agent {

/// Identifies a ResourceClaim as the kubelet does: by namespace, name and uid.
struct ClaimRef {
  std::string namespace_, name, uid;
  std::string str() const { return namespace_ + "/" + name; }
  bool operator==(const ClaimRef&) const = default;
};

}  // namespace egpu::agent
