// A real kube-apiserver behind the interface of the embedded one, so that the same tests run on both: a World's server.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "controller/base/clock.h"
#include "controller/http/http.h"
#include "controller/kube/transport/transport.h"

namespace egpu::support {

/// Requests go there as they are. Watches are what two readings of all objects differ by, so that a driver may read one
/// when it wants to and then knows all that there is; what changed in between comes as one event. Thread-safe.
class RealHandler final : public http::Handler {
 public:
  /// Of the server that EGPU_WORLD_KUBECONFIG names, as its administrator, with nothing left on it of earlier tests;
  /// null if that is not set. The server must answer lists from etcd (--watch-cache=false). Throws std::runtime_error.
  static std::unique_ptr<RealHandler> fromEnvironment();

  http::Response handle(const http::Request& request, std::stop_token stop) override;
  /// Requests that changed something, so far.
  uint64_t writes() const { return writes_; }

 private:
  RealHandler() = default;
  void wipe();
  http::Response must(const std::string& method, const std::string& path, const std::string& body = {});

  base::SystemClock clock_;
  std::unique_ptr<kube::Transport> transport_;
  std::atomic<uint64_t> writes_{0};
};

}  // namespace egpu::support
