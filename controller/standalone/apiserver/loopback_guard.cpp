#include "controller/standalone/apiserver/loopback_guard.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "controller/base/text.h"
#include "controller/standalone/apiserver/show/status_json.h"

namespace egpu::apiserver {
namespace {

/// Returns an untrusted header value for a message: quoted, at most 100 characters, printable ASCII only.
std::string shown(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, 100)) out += c < 0x20 || c > 0x7e || c == '"' ? '?' : c;
  return out + "\"";
}

/// True for "127.x.y.z" with numbers up to 255.
bool isLoopbackV4(std::string_view text) {
  int parts = 0;
  for (; parts < 4; ++parts) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value > 255 || (parts == 0 && value != 127)) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return parts == 3;
    if (text.front() != '.') return false;
    text.remove_prefix(1);
  }
  return false;
}

/// True for content types that browsers send only after a preflight request. The server refuses unsupported ones
/// itself.
bool needsPreflight(std::string_view contentType) {
  static constexpr std::array<std::string_view, 9> kTypes = {"application/json",
                                                             "application/yaml",
                                                             "text/yaml",
                                                             "application/json-patch+json",
                                                             "application/merge-patch+json",
                                                             "application/strategic-merge-patch+json",
                                                             "application/apply-patch+yaml",
                                                             "application/vnd.kubernetes.protobuf",
                                                             "application/cbor"};
  const auto type = base::lowered(base::trimmed(contentType.substr(0, contentType.find(';'))));
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

ApiError refused(std::string why) { return {403, "Forbidden", std::move(why), nullptr, 0}; }

std::optional<ApiError> objection(const http::Request& request) {
  const auto host = request.header("host");
  if (!LoopbackGuard::isLoopback(host))
    return refused(
        "this server has no authentication and is only for programs on this machine: the request's Host is " +
        shown(host) + ", not localhost, 127.0.0.1 or [::1]");
  const auto origin = request.header("origin");
  if (!origin.empty() && base::lowered(origin) != "http://" + base::lowered(host))
    return refused("this server has no authentication and takes no requests from web pages: the request's Origin is " +
                   shown(origin));
  const bool reads = request.method == "GET" || request.method == "HEAD" || request.method == "OPTIONS";
  const bool empty = request.body.empty() && request.method == "DELETE";
  const auto type = request.header("content-type");
  // kubectl 1.20 sends no Content-Type on create. A page can do the same, but its browser adds Origin or
  // Sec-Fetch-Site.
  const bool program = origin.empty() && request.header("sec-fetch-site").empty();
  if (!reads && !empty && !(type.empty() && program) && !needsPreflight(type))
    return unsupportedMediaType("the body's Content-Type is " + (type.empty() ? "missing" : shown(type)) +
                                ": send application/json or application/yaml, with PATCH one of "
                                "application/merge-patch+json, application/json-patch+json and "
                                "application/strategic-merge-patch+json");
  return std::nullopt;
}

}  // namespace

bool LoopbackGuard::isLoopback(std::string_view host) {
  std::string_view port;
  const bool bracket = !host.empty() && host.front() == '[';
  const auto end = bracket ? host.find(']') : host.find(':');
  std::string_view name = host;
  if (bracket) {
    if (end == std::string_view::npos) return false;
    name = host.substr(0, end + 1);
    port = host.substr(end + 1);
  } else if (end != std::string_view::npos) {
    name = host.substr(0, end);
    port = host.substr(end);
  }
  const bool digits = port.size() > 1 && port.front() == ':' &&
                      port.substr(1).find_first_not_of("0123456789") == std::string_view::npos;
  if (!port.empty() && !digits) return false;
  return name == "[::1]" || base::lowered(name) == "localhost" || isLoopbackV4(name);
}

http::Response LoopbackGuard::handle(const http::Request& request, std::stop_token stop) {
  if (const auto error = objection(request)) return toResponse(*error);
  return next_.handle(request, std::move(stop));
}

}  // namespace egpu::apiserver
