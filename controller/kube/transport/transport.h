// The HTTP interface of the client. It is abstract, so that tests can inject faults or use the embedded API server.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/base/status.h"

namespace egpu::kube {

enum class Method { get, post, put, patch, del };
std::string_view toString(Method method);  ///< "GET", …

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  Method method = Method::get;
  std::string target;  ///< path and query, absolute ("/api/v1/pods?limit=500")
  Headers headers;
  std::string body;
  std::chrono::milliseconds timeout{
      30'000};  ///< whole request; for stream(): until the first byte, and idle time afterwards
  std::chrono::milliseconds headTimeout{0};  ///< stream() only: until the answer's head; 0 = timeout
  bool freshConnection = false;              ///< do not reuse a connection, because it may be dead
};

struct HttpResponse {
  int status = 0;
  Headers headers;  ///< names in lower case
  std::string body;
  /// Returns the first header with that (lower-case) name; empty if there is none.
  std::string_view header(std::string_view name) const {
    for (const auto& [k, v] : headers)
      if (k == name) return v;
    return {};
  }
};

/// Thread-safe. Errors concern the connection only (any HTTP status is a response): unavailable = nothing reached the
/// server; unknownOutcome = sent, no complete answer; deadline = like unknownOutcome, after a timeout; cancelled = stop
/// requested; malformed = the answer violates the protocol or exceeds the transport's body limit.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual base::Result<HttpResponse> perform(const HttpRequest& request, std::stop_token stop) = 0;
  /// Streams the body of a 200 to `data` (false ends the stream without an error); any other answer is returned whole.
  /// A 200 returns with an empty body once the stream has ended cleanly. `data` runs on the calling thread.
  virtual base::Result<HttpResponse> stream(const HttpRequest& request,
                                            const std::function<bool(std::string_view chunk)>& data,
                                            std::stop_token stop) = 0;
};

}  // namespace egpu::kube
