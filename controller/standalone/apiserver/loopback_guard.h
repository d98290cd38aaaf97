// Keeps web pages away from a server without authentication that listens on loopback: a browser on the same machine
// would carry their requests there. Other programs are not affected.
#pragma once

#include <optional>
#include <stop_token>
#include <string_view>

#include "controller/http/http.h"

namespace egpu::apiserver {

/// Refuses, with a Status that says why:
/// - a Host that is no loopback name (localhost, 127.x.x.x, [::1]): a page whose name was made to point here (DNS
///   rebinding) sends its own name;
/// - an Origin other than this server's own address: a page of another site, or of another port;
/// - a body of a Content-Type that a page may send without asking the server first (text/plain, a form), and from a
///   browser (it sends Origin or Sec-Fetch-Site) one without any.
/// Everything else is passed on. Thread-safe if the handler is, which must outlive it.
class LoopbackGuard final : public http::Handler {
 public:
  explicit LoopbackGuard(http::Handler& next) : next_(next) {}
  http::Response handle(const http::Request& request, std::stop_token stop) override;

  /// "localhost:7443", "127.0.0.1", "[::1]:7443": a name of this machine with or without a port.
  static bool isLoopback(std::string_view host);

 private:
  http::Handler& next_;
};

}  // namespace egpu::apiserver
