// Requests and answers as our own two servers see them, and the listener that serves a handler (cpp-httplib behind it).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/base/status.h"

namespace egpu::http {

struct Request {
  std::string method;                                        ///< "GET", …
  std::string path;                                          ///< percent-decoded? no: as sent, without the query
  std::string query;                                         ///< raw, without '?'
  std::vector<std::pair<std::string, std::string>> headers;  ///< names in lower case
  std::string body;
  std::string_view header(std::string_view name) const {
    for (const auto& [k, v] : headers)
      if (k == name) return v;
    return {};
  }
};

/// A body that comes in pieces (a watch).
class BodyStream {
 public:
  virtual ~BodyStream() = default;
  /// Blocks until there is something, then appends it to `chunk`; false at the end or when stopped (what `chunk` holds
  /// then is still sent). May return true with nothing appended, and must do so every few seconds: the listener then
  /// looks whether the client is still there.
  virtual bool next(std::string& chunk, std::stop_token stop) = 0;
};

struct Response {
  int status = 200;
  std::string contentType = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::unique_ptr<BodyStream> stream;  ///< if set, body is ignored
};

/// Thread-safe: called on many threads at once.
class Handler {
 public:
  virtual ~Handler() = default;
  /// `stop`: the listener stops, or the client has closed the connection and nobody waits for the answer.
  virtual Response handle(const Request& request, std::stop_token stop) = 0;
  /// Whether a connection with this request goes for a new one where such requests have more than half of the
  /// connections: what anybody may ask must not keep the others out.
  virtual bool givesWay(const Request&) const { return false; }
};

/// Query parameters, percent-decoded, in order.
std::vector<std::pair<std::string, std::string>> parseQuery(std::string_view query);
std::string percentDecode(std::string_view text);

/// What clients may take. Whoever goes beyond is refused or let go, so that the others are served.
struct Limits {
  /// At once, a thread each. For a new one goes who has been idle longest, if for a second; else who has been idle, or
  /// sending a request, longest; else one that reads its answer slowly; before them the oldest of those that
  /// give way, if they are more than half. If all are being answered, the new one gets 503.
  std::size_t connections = 1024;
  std::size_t head = std::size_t{64} * 1024;             ///< bytes of request line and headers; else 431
  std::size_t headers = 256;                             ///< else 431
  std::size_t body = std::size_t{3} * 1024 * 1024;       ///< bytes; else 413. As a real API server
  std::size_t answers = std::size_t{256} * 1024 * 1024;  ///< bytes of answers not yet taken, all together
  std::chrono::milliseconds firstByte{10'000};           ///< of a new connection
  std::chrono::milliseconds idle{120'000};               ///< between two requests of one connection
  std::chrono::milliseconds request{60'000};             ///< from a request's first byte to its last; else 408
  std::chrono::milliseconds stall{10'000};               ///< a client takes nothing of its answer
  std::chrono::milliseconds answer{300'000};             ///< to take the whole answer; streams have all the time
};

/// Mutual TLS, files in PEM: the listener's certificate (its chain after it) and key, and the CA of which every client
/// must show a certificate. They are read again when they change.
struct TlsFiles {
  std::string certificate, key, clientCa;
  /// Who may come: a client's certificate has one of these as its subject's common name, or as a DNS name, e-mail address or URI
  /// among its alternative names, letter by letter. Empty = whoever has a certificate of that CA.
  std::vector<std::string> clientNames{};
};

/// Listens on "host:port" (port 0 = any free one) from construction of start() until stop() or destruction; watches end
/// with it.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual std::string address() const = 0;  ///< "127.0.0.1:7443", the real port
  /// Ends open streams, lets running requests finish, joins all threads. Idempotent.
  virtual void stop() = 0;
};
/// `handler` must outlive the listener. "[::]:port" and ":port" mean every address of both families (of IPv4 alone
/// where there is no IPv6). Fails with Code::unavailable if the address can't be bound.
base::Result<std::unique_ptr<Listener>> listen(const std::string& address, Handler& handler, const Limits& limits = {});
/// The same over TLS. Code::invalid names a file that can't be used.
base::Result<std::unique_ptr<Listener>> listen(const std::string& address, Handler& handler, const Limits& limits,
                                               const TlsFiles& tls);

/// Whether "host:port", or "host", can be reached from this machine only.
bool isLoopback(std::string_view address);

}  // namespace egpu::http
