// Client of the kubelet's PodResources service: which devices its containers have.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "controller/agent/health/foreign_use.h"

namespace egpu::agent::dra {

/// Not thread-safe.
class PodResources {
 public:
  /// `socket`: path of the kubelet's socket, usually "/var/lib/kubelet/pod-resources/kubelet.sock".
  explicit PodResources(std::string socket) : socket_(std::move(socket)) {}

  /// Returns all devices that containers have from device plugins, and from DRA drivers except this one. Each call
  /// queries the kubelet and takes at most kPatience. Returns nullopt if the kubelet does not answer or `stop` is
  /// requested; the first failure in a row is logged.
  std::optional<std::vector<health::Given>> list(const std::stop_token& stop);
  static constexpr std::chrono::seconds kPatience{5};
  static constexpr int kMaxBytes = 16 << 20;  ///< maximum size of a response; a larger one fails

 private:
  const std::string socket_;
  bool silent_ = false;  ///< true if the last call failed
};

}  // namespace egpu::agent::dra
