// What this node's kubelet has given to containers, asked of its PodResources service.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "controller/agent/health/foreign_use.h"

namespace egpu::agent::dra {

/// Of one thread.
class PodResources {
 public:
  /// socket: the kubelet's, "/var/lib/kubelet/pod-resources/kubelet.sock".
  explicit PodResources(std::string socket) : socket_(std::move(socket)) {}

  /// All that containers have by device plugins, and by DRA drivers but for ours. Asked anew each time, which takes
  /// kPatience at most. nullopt: the kubelet did not answer, and nothing is known; that is logged when it begins.
  std::optional<std::vector<health::Given>> list(const std::stop_token& stop);
  static constexpr std::chrono::seconds kPatience{5};
  static constexpr int kMostBytes = 16 << 20;  ///< of an answer; a longer one is none

 private:
  const std::string socket_;
  bool silent_ = false;  ///< it did not answer the last time
};

}  // namespace egpu::agent::dra
