// Which ResourceClaim the kubelet means.
#pragma once

#include <string>

namespace egpu::agent {

/// A ResourceClaim as the kubelet names it.
struct ClaimRef {
  std::string namespace_, name, uid;
  std::string str() const { return namespace_ + "/" + name; }
  bool operator==(const ClaimRef&) const = default;
};

}  // namespace egpu::agent
