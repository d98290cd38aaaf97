// Refuses requests of web pages to a server that listens on loopback without authentication. A browser on the same
// machine would otherwise send such requests. Other programs are not affected.
#pragma once

#include <optional>
#include <stop_token>
#include <string_view>

#include "controller/http/http.h"

namespace egpu::apiserver {

/// Passes requests to another handler, but refuses the following with a Status that has the reason:
/// - a Host that is not a loopback name (localhost, 127.x.x.x, [::1]): with DNS rebinding, a page sends its own name;
/// - an Origin other than this server's address: a page of another site or port;
/// - a body with a Content-Type that a page may send without a preflight request (text/plain, a form), and a body
///   without a Content-Type from a browser, which sends Origin or Sec-Fetch-Site.
/// The handler must outlive it. Thread-safe if the handler is.
class LoopbackGuard final : public http::Handler {
 public:
  explicit LoopbackGuard(http::Handler& next) : next_(next) {}
  http::Response handle(const http::Request& request, std::stop_token stop) override;

  /// True for a loopback name with or without a port: "localhost:7443", "127.0.0.1", "[::1]:7443".
  static bool isLoopback(std::string_view host);

 private:
  http::Handler& next_;
};

}  // namespace egpu::apiserver
