#include "controller/server/operations.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "controller/server/questions.h"

namespace egpu::server {

namespace {

http::Response plain(int status, std::string body) {
  http::Response r;
  r.status = status;
  r.contentType = "text/plain; charset=utf-8";
  r.body = std::move(body);
  return r;
}

http::Response probe(const std::function<std::string()>& check) {
  const std::string wrong = check ? check() : std::string();
  return wrong.empty() ? plain(200, "ok\n") : plain(503, wrong + "\n");
}

}  // namespace

Operations::Operations(OperationsSources sources) : sources_(std::move(sources)) {}

http::Response Operations::handle(const http::Request& request, std::stop_token) {
  if (sources_.questions && Questions::serves(request.path)) {
    const std::string missing = sources_.ready ? sources_.ready() : std::string();
    return missing.empty() ? sources_.questions(request) : plain(503, missing + "\n");
  }
  if (request.method != "GET" && request.method != "HEAD") {
    auto r = plain(405, "only GET is served here\n");
    r.headers.emplace_back("Allow", "GET, HEAD");
    return r;
  }
  if (request.path == "/healthz" || request.path == "/livez") return probe(sources_.alive);
  if (request.path == "/readyz") return readiness();
  if (request.path == "/metrics") {
    auto r = plain(200, sources_.metrics());
    r.contentType = "text/plain; version=0.0.4; charset=utf-8";
    return r;
  }
  if (request.path == "/allocation-map") return allocationMap(request);
  return plain(
      404,
      "there is /healthz, /readyz, /metrics, /allocation-map (?format=json|backendai|text), /explain, /simulate "
      "and /forecast (?format=json|text)\n");
}

http::Response Operations::readiness() const {
  auto answer = probe(sources_.ready);
  const std::string role = sources_.role ? sources_.role() : std::string();
  if (answer.status == 200 && !role.empty()) answer.body = "ok: " + role + "\n";
  return answer;
}

http::Response Operations::allocationMap(const http::Request& request) const {
  std::string format = "json", node;
  TextOptions text;
  for (const auto& [key, value] : http::parseQuery(request.query)) {
    if (key == "format") {
      format = value;
    } else if (key == "node") {
      node = value;
    } else if (key == "color") {
      text.color = value == "1" || value == "true";
    } else if (key == "width") {
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), text.bar);
      if (parsed.ec != std::errc{} || parsed.ptr != value.data() + value.size())
        return plain(400, "width: \"" + value + "\" is no number of cells (10 to 200)\n");
    } else {
      return plain(400, "unknown parameter \"" + key + "\"; known are format, node, color, width\n");
    }
  }
  if (format != "json" && format != "backendai" && format != "text")
    return plain(400, "format: \"" + format + "\" is unknown; known are json, backendai, text\n");
  auto map = sources_.map();
  if (!node.empty()) {
    auto& nodes = map.nodes;
    nodes.erase(std::remove_if(nodes.begin(), nodes.end(), [&](const auto& n) { return n.name != node; }), nodes.end());
    if (nodes.empty()) return plain(404, "there is no node \"" + node + "\"\n");
  }
  if (format == "text") return plain(200, toText(map, text));
  http::Response r;
  r.body = format == "json" ? toJson(map) : toBackendAi(map);
  return r;
}

}  // namespace egpu::server
