// An API server that refuses some requests for reasons of its own: rights, a quota, an admission policy.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "tests/support/forwarding_transport.h"

namespace egpu::support {

/// Thread-safe while `code` and `message` do not change and `refuses` is thread-safe.
class RefusingTransport final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;

  /// Requests for which this returns true get `code` with `message`. Empty: all requests pass.
  std::function<bool(const kube::HttpRequest&)> refuses;
  int code = 403;  ///< 0: the connection breaks before the request arrives, but the client cannot know that
  std::string message = "exceeded quota";
  std::atomic<int> refused{0};  ///< number of refusals so far

  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    if (!refuses || !refuses(request)) return ForwardingTransport::perform(request, std::move(stop));
    ++refused;
    if (code == 0) return base::Status(base::Code::unknownOutcome, "connection reset");
    kube::HttpResponse no;
    no.status = code;
    no.headers = {{"content-type", "application/json"}};
    no.body = R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":")" +
              std::string(code == 403 ? "Forbidden" : "Invalid") + R"(","code":)" + std::to_string(code) +
              R"(,"message":")" + message + R"("})";
    return no;
  }
};

}  // namespace egpu::support
