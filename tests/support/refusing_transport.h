// An API server that says no to some requests for reasons of its own: rights, a quota, an admission policy.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "controller/kube/transport/transport.h"

namespace egpu::support {

/// Not thread-safe.
class RefusingTransport final : public kube::Transport {
 public:
  explicit RefusingTransport(kube::Transport& next) : next_(next) {}

  /// Requests for which this holds get `code` with `message`; none = all pass.
  std::function<bool(const kube::HttpRequest&)> refuses;
  int code = 403;  ///< 0: the connection breaks before the request has arrived, which nobody can know
  std::string message = "exceeded quota";
  int refused = 0;  ///< so many so far

  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    if (!refuses || !refuses(request)) return next_.perform(request, stop);
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
  base::Result<kube::HttpResponse> stream(const kube::HttpRequest& request,
                                          const std::function<bool(std::string_view)>& data,
                                          std::stop_token stop) override {
    return next_.stream(request, data, stop);
  }

 private:
  kube::Transport& next_;
};

}  // namespace egpu::support
