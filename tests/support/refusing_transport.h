// An API server that says no to some requests for reasons of its own: rights, a quota, an admission policy.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "tests/support/forwarding_transport.h"

namespace egpu::support {

/// Thread-safe while what it is told stays and `refuses` is.
class RefusingTransport final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;

  /// Requests for which this holds get `code` with `message`; none = all pass.
  std::function<bool(const kube::HttpRequest&)> refuses;
  int code = 403;  ///< 0: the connection breaks before the request has arrived, which nobody can know
  std::string message = "exceeded quota";
  std::atomic<int> refused{0};  ///< so many so far

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
