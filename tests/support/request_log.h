// Records all requests, and those that were answered 404.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/forwarding_transport.h"

namespace egpu::support {

/// Requests for events are left out. Not thread-safe.
class RequestLog final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;

  std::vector<std::string> requests, missed;  ///< "GET /apis/…"

  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    auto answer = ForwardingTransport::perform(request, std::move(stop));
    if (request.target.find("/events") != std::string::npos) return answer;
    const auto line = std::string(kube::toString(request.method)) + " " + request.target;
    requests.push_back(line);
    if (answer.ok() && answer->status == 404) missed.push_back(line);
    return answer;
  }
};

}  // namespace egpu::support
