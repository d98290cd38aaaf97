#include "controller/server/operations/operations.h"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "controller/codec/json/text.h"
#include "controller/codec/yaml_text.h"
#include "controller/http/plain.h"
#include "controller/server/moves.h"
#include "controller/whatif/service.h"

namespace egpu::server {

namespace {

constexpr std::string_view kPaths =
    "there is / (a page for browsers), /events, /healthz, /livez, /readyz, /metrics, /allocation-map "
    "(?format=json|yaml|backendai|text), /explain, /simulate (also POST /api/simulate-schedule), /forecast, /defrag "
    "(?format=json|yaml|text; POST with execute=true moves) and /bill (?format=json|csv|opencost)\n";

constexpr std::string_view kBillPath = "/bill";

/// Returns a Kubernetes Status, the format of the API server's refusals.
http::Response refusal(int status, const std::string& message) {
  const auto reason = status == 401   ? "Unauthorized"
                      : status == 403 ? "Forbidden"
                      : status == 413 ? "RequestEntityTooLarge"
                                      : "ServiceUnavailable";
  codec::JsonText j;
  j.beginObject().key("kind").value("Status").key("apiVersion").value("v1");
  j.key("metadata").beginObject().endObject();
  j.key("status").value("Failure").key("message").value(message).key("reason").value(reason);
  j.key("code").value(status).endObject();
  http::Response r;
  r.status = status;
  r.body = j.take();
  if (status == 401) r.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (status == 503) r.headers.emplace_back("Retry-After", "1");
  return r;
}

/// True if the request comes from this machine and not from a web page of another site. Needed without authentication:
/// a browser's request would name another host, or reveal its origin. Images and links send no Origin, only
/// Sec-Fetch-Site.
bool fromThisMachine(const http::Request& request) {
  const auto host = request.header("host");
  if (!host.empty() && !http::isLoopback(host)) return false;
  auto origin = request.header("origin");
  if (origin.empty()) {
    const auto site = request.header("sec-fetch-site");
    return site.empty() || site == "none" || site == "same-origin" || site == "same-site";
  }
  const auto scheme = origin.find("://");
  if (scheme == std::string_view::npos) return false;
  return http::isLoopback(origin.substr(scheme + 3));
}

/// Parameters of /allocation-map.
struct MapQuery {
  std::string format = "json";
  allocator::MapPage page;
  TextOptions text;
};

/// Returns an error message if the parameter is invalid.
std::string readNumber(const std::string& key, const std::string& value, const char* what, std::size_t& into) {
  const auto parsed = std::from_chars(value.data(), value.data() + value.size(), into);
  if (parsed.ec == std::errc{} && parsed.ptr == value.data() + value.size()) return {};
  return key + ": \"" + value + "\" is not a number of " + what + "\n";
}

std::string readMapQuery(const http::Request& request, MapQuery& query) {
  for (const auto& [key, value] : http::parseQuery(request.query)) {
    std::string wrong;
    if (key == "format")
      query.format = value;
    else if (key == "node")
      query.page.node = value;
    else if (key == "continue")
      query.page.after = value;
    else if (key == "color")
      query.text.color = value == "1" || value == "true";
    else if (key == "width")
      wrong = readNumber(key, value, "cells (10 to 200)", query.text.bar);
    else if (key == "columns")
      wrong = readNumber(key, value, "columns", query.text.columns);
    else if (key == "idle" && value != "nodes")
      wrong = "idle: \"" + value + "\" is unknown; known is nodes (those without a claim)\n";
    else if (key == "idle")
      query.page.idle = true;
    else if (key == "limit")
      wrong = readNumber(key, value, "nodes", query.page.limit);
    else
      wrong =
          "unknown parameter \"" + key + "\"; known are format, node, idle, limit, continue, color, columns, width\n";
    if (!wrong.empty()) return wrong;
  }
  if (query.format != "json" && query.format != "yaml" && query.format != "backendai" && query.format != "text")
    return "format: \"" + query.format + "\" is unknown; known are json, yaml, backendai, text\n";
  return {};
}

/// Returns the map in the requested format.
http::Response shown(const AllocationMap& map, const MapQuery& query, const ClaimPods& pods) {
  const auto& next = map.next;
  auto r = query.format == "text" ? http::plain(200, toText(map, query.text, pods)) : http::Response{};
  if (query.format == "json" || query.format == "yaml") r.body = toJson(map, pods);
  if (query.format == "backendai") r.body = toBackendAi(map);
  if (!next.empty()) r.headers.emplace_back("Continue", next);
  if (!next.empty() && (query.format == "json" || query.format == "yaml")) {
    codec::JsonText quoted;
    r.body.back() = ',';
    r.body += "\"continue\":" + quoted.value(next).take() + "}";
  }
  if (query.format != "yaml") return r;
  r.body = codec::jsonToYaml(r.body);
  r.contentType = "application/yaml";
  return r;
}

}  // namespace

Operations::Operations(OperationsSources sources)
    : sources_(std::move(sources)), probes_({sources_.alive, sources_.ready, sources_.role}) {}

http::Limits Operations::limits() {
  http::Limits limits;
  limits.maxConnections = 64;
  limits.maxBodyBytes = std::size_t{256} * 1024;
  limits.maxUnreadBytes = 4 * kMaxAnswer;
  limits.firstByteTimeout = std::chrono::seconds(5);
  limits.requestTimeout = std::chrono::seconds(30);
  limits.answerTimeout = std::chrono::seconds(60);
  return limits;
}

http::Response Operations::handle(const http::Request& request, std::stop_token stop) {
  if (Probes::serves(request.path)) return probes_.handle(request, std::move(stop));
  if (isScrape(request)) return scrape(stop);
  if (isPagePath(request.path)) return pageFile(request);
  // Stop when either the client closes the connection or the process ends.
  std::stop_source either;
  const auto end = [&either] { either.request_stop(); };
  const std::stop_callback gone(stop, end), stopping(stopping_.get_token(), end);
  bool whole = true;
  if (sources_.callers) {
    auto verdict = sources_.callers(request.header("authorization"), either.get_token());
    whole = verdict.status == 200;
    if (!whole) verdict = tenant(request, std::move(verdict), either.get_token());
    if (verdict.status != 200) return refusal(verdict.status, verdict.message);
  } else if (!fromThisMachine(request)) {
    return refusal(403,
                   "only this machine may send requests: Host and Origin must be localhost or a loopback address, and "
                   "no page of another site may link here (Sec-Fetch-Site)");
  }
  auto answer = guarded(request, whole, either.get_token());
  if (answer.body.size() <= kMaxAnswer) return answer;
  return refusal(413, "the answer has " + std::to_string(answer.body.size() >> 20) + " MiB, more than " +
                          std::to_string(kMaxAnswer >> 20) +
                          ": request less, one node (node=) or a number of nodes at a time (limit=, continue=)");
}

/// Authorizes a caller without rights in the cluster for the bill of the namespace in the query.
Callers::CallerVerdict Operations::tenant(const http::Request& request, Callers::CallerVerdict refused,
                                          std::stop_token stop) const {
  if (refused.status != 403 || request.path != kBillPath || !sources_.tenants) return refused;
  std::string space;
  for (const auto& [key, value] : http::parseQuery(request.query))
    if (key == "namespace") space = value;
  if (space.empty()) return refused;
  return sources_.tenants(request.header("authorization"), space, std::move(stop));
}

/// Serves the requests that need authorization. whole: the caller may see the whole cluster; otherwise only rows of its
/// namespace in /bill.
http::Response Operations::guarded(const http::Request& request, bool whole, std::stop_token stop) {
  const bool moves = Moves::serves(request);
  if (moves && !sources_.moves)
    return http::plain(404, "moves are not made here: use elastic-gpu-controller defrag --execute\n");
  if (moves || (sources_.questions && whatif::QuestionService::serves(request.path))) {
    if (stopping_.stop_requested()) return refusal(503, "the controller is stopping");
    const std::string missing = sources_.ready ? sources_.ready() : std::string();
    if (!missing.empty()) return http::plain(503, missing + "\n");
    return moves ? sources_.moves(request, std::move(stop)) : sources_.questions(request, std::move(stop));
  }
  if (request.method != "GET" && request.method != "HEAD") {
    auto r = http::plain(405, "only GET is served here\n");
    r.headers.emplace_back("Allow", "GET, HEAD");
    return r;
  }
  if (request.path == "/allocation-map") return allocationMap(request, std::move(stop));
  if (request.path == "/events" && request.method == "GET" && sources_.events) return events(request);
  if (request.path == kBillPath && sources_.bill) return sources_.bill(request, whole, std::move(stop));
  return http::plain(404, std::string(kPaths));
}

http::Response Operations::events(const http::Request& request) const {
  if (stopping_.stop_requested()) return refusal(503, "the controller is stopping");
  const std::string missing = sources_.ready ? sources_.ready() : std::string();
  if (!missing.empty()) return http::plain(503, missing + "\n");
  if (!sources_.callers) return sources_.events({});
  const std::string authorization(request.header("authorization"));
  return sources_.events([this, authorization](std::stop_token stop) {
    return sources_.callers(authorization, std::move(stop)).status == 200;
  });
}

bool Operations::isScrape(const http::Request& request) {
  return request.path == "/metrics" && (request.method == "GET" || request.method == "HEAD");
}

http::Response Operations::scrape(const std::stop_token& stop) {
  base::MutexLock lock(mutex_);
  const uint64_t mine = begun_ + 1;  // a scrape in progress may miss changes that the caller has seen
  scrapeDone_.wait(lock, stop, [&]() EGPU_REQUIRES(mutex_) { return scrapedBy_ >= mine || !scraping_; });
  if (stop.stop_requested()) return refusal(503, "stopped");
  if (scrapedBy_ < mine) {
    struct ScrapeSlot {  // its end holds the mutex again, also after an exception
      Operations& of;
      const uint64_t number;
      std::shared_ptr<const std::string> text{};
      ~ScrapeSlot() {
        of.scraping_ = false;
        if (text) std::tie(of.scraped_, of.scrapedBy_) = std::tie(text, number);
        of.scrapeDone_.notify_all();
      }
    } slot{*this, ++begun_};
    scraping_ = true;
    const base::MutexUnlock unlocked(mutex_);
    slot.text = std::make_shared<const std::string>(sources_.metrics());
  }
  const auto text = scraped_;
  lock.unlock();
  auto r = http::plain(200, *text);
  r.contentType = "text/plain; version=0.0.4; charset=utf-8";
  return r;
}

http::Response Operations::allocationMap(const http::Request& request, std::stop_token stop) {
  MapQuery query;
  if (auto wrong = readMapQuery(request, query); !wrong.empty()) return http::plain(400, std::move(wrong));
  {
    base::MutexLock lock(mutex_);
    if (!mapDone_.wait(lock, stop, [this]() EGPU_REQUIRES(mutex_) { return maps_ < kMaps; }))
      return refusal(503, "stopped");
    ++maps_;
  }
  struct MapSlot {
    Operations& of;
    ~MapSlot() {
      {
        const base::MutexLock lock(of.mutex_);
        --of.maps_;
      }
      of.mapDone_.notify_one();
    }
  } const slot{*this};
  const auto map = sources_.map(query.page);
  if (!query.page.node.empty() && map.nodes.empty() && !query.page.idle)
    return http::plain(404, "there is no node \"" + query.page.node + "\"\n");
  return shown(map, query, sources_.pods ? sources_.pods(map) : ClaimPods{});
}

}  // namespace egpu::server
