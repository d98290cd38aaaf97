// /healthz, /livez, /readyz: cheap, for a port of their own, so that whatever else is asked they answer.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include "controller/http/http.h"

namespace egpu::server {

/// Thread-safe functions that return at once.
struct ProbeSources {
  std::function<std::string()> alive;   ///< empty = alive, else what is wrong
  std::function<std::string()> ready;   ///< empty = ready, else what is missing
  /// Shown by /readyz beside "ok": "leader" | "standby", or a warning that keeps the process ready; empty = nothing.
  std::function<std::string()> role{};
};

/// 200 "ok", or 503 and what is wrong or missing. /readyz says "ok: leader" | "ok: standby": both are ready.
/// Thread-safe.
class Probes final : public http::Handler {
 public:
  explicit Probes(ProbeSources sources) : sources_(std::move(sources)) {}
  static bool serves(std::string_view path) { return path == "/healthz" || path == "/livez" || path == "/readyz"; }
  http::Response handle(const http::Request& request, std::stop_token stop) override;

  /// Of a listener for nothing but probes: what they need, and no more.
  static http::Limits limits();

 private:
  const ProbeSources sources_;
};

}  // namespace egpu::server
