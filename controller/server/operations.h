// The operations endpoint: /healthz, /readyz, /metrics, /allocation-map, /explain, /simulate, /forecast.
#pragma once

#include <functional>
#include <string>

#include "controller/http/http.h"
#include "controller/server/allocation_map.h"

namespace egpu::server {

/// What the endpoint shows, each a function so that the server owns no state. All must be thread-safe.
struct OperationsSources {
  std::function<AllocationMap()> map;
  std::function<std::string()> metrics;  ///< Prometheus text
  std::function<std::string()> alive;    ///< empty = alive, else what is wrong
  std::function<std::string()> ready;    ///< empty = ready, else what is missing
  std::function<std::string()> role{};   ///< "leader" | "standby", shown by /readyz; empty = there is no election
  /// Answers what Questions::serves(); not asked before everything is ready. Empty = there are none.
  std::function<http::Response(const http::Request&)> questions{};
};

/// GET only, but for questions. /readyz says "ok", or "ok: leader" | "ok: standby": both are ready.
/// /allocation-map?format=json|backendai|text (&node= &color=1 &width=) ; unknown formats and paths are refused with a
/// line that says what there is. Thread-safe.
class Operations final : public http::Handler {
 public:
  explicit Operations(OperationsSources sources);
  http::Response handle(const http::Request& request, std::stop_token stop) override;

 private:
  http::Response readiness() const;
  http::Response allocationMap(const http::Request& request) const;
  const OperationsSources sources_;
};

}  // namespace egpu::server
