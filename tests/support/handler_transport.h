// Connects the real client to the embedded API server without a socket: adapts http::Handler to kube::Transport.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "controller/http/http.h"
#include "controller/kube/transport/transport.h"

namespace egpu::support {

inline http::Request toServer(const kube::HttpRequest& request) {
  http::Request out;
  out.method = std::string(kube::toString(request.method));
  const auto mark = request.target.find('?');
  out.path = request.target.substr(0, mark);
  if (mark != std::string::npos) out.query = request.target.substr(mark + 1);
  for (const auto& [name, value] : request.headers) {
    std::string lower = name;
    for (auto& c : lower)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    out.headers.emplace_back(std::move(lower), value);
  }
  out.body = request.body;
  return out;
}

inline kube::HttpResponse toClient(http::Response&& response) {
  kube::HttpResponse out;
  out.status = response.status;
  out.headers = std::move(response.headers);
  out.headers.emplace_back("content-type", response.contentType);
  out.body = std::move(response.body);
  return out;
}

/// Thread-safe if the handler is. The handler must outlive this object.
class HandlerTransport : public kube::Transport {
 public:
  explicit HandlerTransport(http::Handler& handler) : handler_(handler) {}

  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    return toClient(handler_.handle(toServer(request), stop));
  }
  base::Result<kube::HttpResponse> stream(const kube::HttpRequest& request,
                                          const std::function<bool(std::string_view)>& data,
                                          std::stop_token stop) override {
    auto response = handler_.handle(toServer(request), stop);
    if (response.status != 200 || !response.stream) return toClient(std::move(response));
    std::string chunk;
    while (response.stream->next(chunk, stop)) {
      if (!chunk.empty() && !data(chunk)) break;
      chunk.clear();
    }
    if (stop.stop_requested()) return base::Status(base::Code::cancelled, "stopped");
    kube::HttpResponse end;
    end.status = 200;
    return end;
  }

 private:
  http::Handler& handler_;
};

}  // namespace egpu::support
