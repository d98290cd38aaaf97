// /healthz, /livez, /readyz: cheap, on a port of their own, so that they answer regardless of other load.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include "controller/http/http.h"

namespace egpu::server {

/// Thread-safe functions that return immediately.
struct ProbeSources {
  std::function<std::string()> alive;  ///< empty = alive, otherwise the fault
  std::function<std::string()> ready;  ///< empty = ready, otherwise the missing condition
  /// Shown by /readyz after "ok": "leader" | "standby", or a warning that does not affect readiness; empty = nothing.
  std::function<std::string()> role{};
};

/// Answers 200 "ok", or 503 and the fault or missing condition. /readyz answers "ok: leader" | "ok: standby": both are
/// ready. Thread-safe.
class Probes final : public http::Handler {
 public:
  explicit Probes(ProbeSources sources) : sources_(std::move(sources)) {}
  static bool serves(std::string_view path) { return path == "/healthz" || path == "/livez" || path == "/readyz"; }
  http::Response handle(const http::Request& request, std::stop_token stop) override;

  /// Limits of a listener that serves only probes: the minimum that they need.
  static http::Limits limits();

 private:
  const ProbeSources sources_;
};

}  // namespace egpu::server
