// HTTP as the client sees it. An interface, so that tests put faults under the real client and the embedded API server
// beside it.
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
      30'000};  ///< whole exchange; for stream(): until the first byte, and idle time afterwards
  std::chrono::milliseconds headTimeout{0};  ///< stream() only: until the answer's head; 0 = as timeout
  bool freshConnection = false;              ///< not on a connection that may have died unnoticed
};

struct HttpResponse {
  int status = 0;
  Headers headers;  ///< names in lower case
  std::string body;
  /// First header of that (lower-case) name, or empty.
  std::string_view header(std::string_view name) const {
    for (const auto& [k, v] : headers)
      if (k == name) return v;
    return {};
  }
};

/// Thread-safe. Errors are of the connection only (any HTTP status is a response):
/// unavailable = nothing reached the server; unknownOutcome = sent, no (whole) answer; deadline = as unknownOutcome, by
/// time-out; cancelled = stop requested; malformed = an answer that breaks the protocol or exceeds the transport's
/// limit on bodies.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual base::Result<HttpResponse> perform(const HttpRequest& request, std::stop_token stop) = 0;
  /// Streams the body of a 200 to `data` (false ends the stream quietly); any other answer is returned whole.
  /// A 200 returns with an empty body once the stream has ended cleanly. `data` runs on the calling thread.
  virtual base::Result<HttpResponse> stream(const HttpRequest& request,
                                            const std::function<bool(std::string_view chunk)>& data,
                                            std::stop_token stop) = 0;
};

}  // namespace egpu::kube
