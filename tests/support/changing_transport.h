// An API server whose mutating admission policy changes ResourceClaimTemplates on creation: a tenth of a card becomes a
// fifth.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "tests/support/forwarding_transport.h"

namespace egpu::support {

/// Not thread-safe.
class ChangingTransport final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;

  bool changes = true;
  int changed = 0;                 ///< number of changes so far
  std::function<void()> onChange;  ///< called before each change; may be empty

  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    const auto made =
        request.method == kube::Method::post && request.target.find("/resourceclaimtemplates") != std::string::npos;
    const auto amount = made && changes ? request.body.find(kAmount) : std::string::npos;
    if (amount == std::string::npos) return ForwardingTransport::perform(request, std::move(stop));
    ++changed;
    if (onChange) onChange();
    auto other = request;
    other.body.replace(other.body.find("10", amount), 2, "20");
    return ForwardingTransport::perform(other, std::move(stop));
  }

 private:
  static constexpr const char* kAmount = "elasticgpu.io/gpu-core";
};

}  // namespace egpu::support
