// A real kube-apiserver behind the embedded server's interface, so that the same tests run on both: a World's server.
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

/// Forwards requests unchanged. Each watch is the difference between two full lists, so that a driver can read it on
/// demand and then knows all objects; changes between two lists become one event. Thread-safe.
class RealHandler final : public http::Handler {
 public:
  /// Connects to the server that EGPU_WORLD_KUBECONFIG names, as its administrator, and removes objects of earlier
  /// tests. Returns null if the variable is not set. The server must answer lists from etcd (--watch-cache=false).
  /// Throws std::runtime_error.
  static std::unique_ptr<RealHandler> fromEnvironment();

  http::Response handle(const http::Request& request, std::stop_token stop) override;
  /// Number of requests so far that changed an object.
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
