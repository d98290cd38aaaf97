// Records all writes, in order.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/forwarding_transport.h"

namespace egpu::support {

/// Not thread-safe.
class RecordingTransport final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;

  struct Write {
    std::string method, path, body;  ///< path without the query
  };
  std::vector<Write> writes;

  /// Returns "PATCH /apis/…/resourceclaims/a" of the writes whose path contains one of the texts, in order.
  std::vector<std::string> about(const std::vector<std::string>& texts) const {
    std::vector<std::string> lines;
    for (const auto& write : writes)
      if (std::any_of(texts.begin(), texts.end(),
                      [&](const auto& text) { return write.path.find(text) != std::string::npos; }))
        lines.push_back(write.method + " " + write.path.substr(write.path.rfind("/v1") + 1));
    return lines;
  }

  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    if (request.method != kube::Method::get)
      writes.push_back({std::string(kube::toString(request.method)), request.target.substr(0, request.target.find('?')),
                        request.body});
    return ForwardingTransport::perform(request, std::move(stop));
  }
};

}  // namespace egpu::support
