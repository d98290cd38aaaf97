#include "controller/server/operations/probes.h"

#include <utility>

#include "controller/http/plain.h"

namespace egpu::server {

namespace {}  // namespace

http::Response Probes::handle(const http::Request& request, std::stop_token) {
  if (request.method != "GET" && request.method != "HEAD") {
    auto r = http::plain(405, "only GET is served here\n");
    r.headers.emplace_back("Allow", "GET, HEAD");
    return r;
  }
  if (!serves(request.path)) return http::plain(404, "there is /healthz, /livez and /readyz\n");
  const bool readiness = request.path == "/readyz";
  const auto& check = readiness ? sources_.ready : sources_.alive;
  if (const std::string wrong = check ? check() : std::string(); !wrong.empty()) return http::plain(503, wrong + "\n");
  const std::string role = readiness && sources_.role ? sources_.role() : std::string();
  return http::plain(200, role.empty() ? "ok\n" : "ok: " + role + "\n");
}

http::Limits Probes::limits() {
  http::Limits limits;
  limits.maxConnections = 64;
  limits.maxHeadBytes = std::size_t{16} * 1024;
  limits.maxHeaders = 64;
  limits.maxBodyBytes = 0;
  limits.firstByteTimeout = limits.idleTimeout = std::chrono::seconds(5);
  limits.requestTimeout = std::chrono::seconds(10);
  limits.readTimeout = limits.answerTimeout = std::chrono::seconds(5);
  return limits;
}

}  // namespace egpu::server
