// Forwards all requests to another transport: the base of transports that count, refuse, delay or abort requests.
#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "controller/kube/transport/transport.h"

namespace egpu::support {

/// Does not own the next transport. As thread-safe as that transport.
class ForwardingTransport : public kube::Transport {
 public:
  explicit ForwardingTransport(kube::Transport& next) : next_(next) {}

  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    return next_.perform(request, std::move(stop));
  }
  base::Result<kube::HttpResponse> stream(const kube::HttpRequest& request,
                                          const std::function<bool(std::string_view)>& data,
                                          std::stop_token stop) override {
    return next_.stream(request, data, std::move(stop));
  }

 private:
  kube::Transport& next_;
};

}  // namespace egpu::support
