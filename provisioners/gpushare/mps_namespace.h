// Names of MPS version 3 that the agent and this plugin use: the agent creates a namespace with the limits of a device
// (controller/agent/sharing/mps_limits.h), and the plugin gives containers the sockets of that namespace only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace egpu::gpushare {

/// Server that serves a card.
inline constexpr const char* kMpsServer = "card";

/// Returns the namespace of a device: the last 24 letters and digits of its uid, because the path of a socket has at
/// most 107 bytes. `nvidia-cuda-mps-control` accepts lower-case letters and digits.
inline std::string mpsNamespaceOf(std::string_view deviceUid) {
  constexpr std::size_t kMaxLength = 24;
  std::string out;
  for (const char c : deviceUid) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) out += c;
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
  }
  return out.size() > kMaxLength ? out.substr(out.size() - kMaxLength) : out;
}

}  // namespace egpu::gpushare
