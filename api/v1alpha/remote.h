// Devices of source `remote`: GPUs that containers use over the network. They have no cards.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "api/v1alpha/types.h"

namespace egpu::v1alpha {

/// This project's provisioner of remote devices (provisioners/remote). Others may exist.
inline constexpr std::string_view kRemoteProvisioner = "remote.provisioner.elasticgpu.io";

/// Value of a provisioner's `source` if its devices are remote.
inline constexpr std::string_view kRemoteSource = "remote";

/// Pool of remote devices in the allocations of ResourceClaims. Other devices are in the pool of their node.
inline constexpr std::string_view kRemotePool = "remote";

inline bool isRemote(const ElasticGPU& device) {
  return device.spec.source && device.spec.source->kind == SourceKind::remote;
}
/// Returns the scheme, host and port of an address. Its user, path and query can be secrets, and are left out.
inline std::string withoutSecrets(std::string_view address) {
  const auto scheme = address.find("://");
  const std::size_t start = scheme == std::string_view::npos ? 0 : scheme + 3;
  const auto end = std::min(address.find_first_of("/?#", start), address.size());
  const auto authority = address.substr(start, end - start);
  const auto at = authority.rfind('@');
  // A password with a slash looks like a host and a path.
  const bool isUnclear = at == std::string_view::npos && address.find('@', end) != std::string_view::npos;
  return std::string(address.substr(0, start)) +
         (isUnclear ? "…" : std::string(authority.substr(at == std::string_view::npos ? 0 : at + 1)));
}
/// True if pods on every node with an agent can use the device. An administrator may limit a remote device to one node
/// by spec.nodeName.
inline bool isOnAnyNode(const ElasticGPU& device) { return isRemote(device) && device.spec.nodeName.empty(); }

}  // namespace egpu::v1alpha
