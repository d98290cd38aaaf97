// HTTP requests and responses as the handlers of server/ and standalone/ see them, and the listener that serves a
// handler. The listener uses cpp-httplib internally.
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
  std::string path;                                          ///< as sent, not percent-decoded; without the query
  std::string query;                                         ///< raw, without '?'
  std::vector<std::pair<std::string, std::string>> headers;  ///< names in lower case
  std::string body;
  std::string_view header(std::string_view name) const {
    for (const auto& [k, v] : headers)
      if (k == name) return v;
    return {};
  }
};

/// Body that is sent in pieces, such as that of a watch.
class BodyStream {
 public:
  virtual ~BodyStream() = default;
  /// Blocks until there is data and appends it to `chunk`. Returns false at the end or when stopped; the content of
  /// `chunk` is still sent then. Must return at least every few seconds, true without data if there is none, so that
  /// the listener can check whether the client is still connected.
  virtual bool next(std::string& chunk, std::stop_token stop) = 0;
};

struct Response {
  int status = 200;
  std::string contentType = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::unique_ptr<BodyStream> stream;  ///< if set, body is ignored
};

/// Answers requests. Must be thread-safe: the listener calls it on many threads at once.
class Handler {
 public:
  virtual ~Handler() = default;
  /// Returns the response. `stop` is requested when the listener stops, or when the client closes the connection and so
  /// no longer waits for the answer.
  virtual Response handle(const Request& request, std::stop_token stop) = 0;
  /// True if a connection with this request may be ended for a new one while such requests have more than half of the
  /// connections. For requests that any client may send, so that they do not block other clients.
  virtual bool givesWay(const Request&) const { return false; }
};

/// Returns the query parameters, percent-decoded, in the order of the query.
std::vector<std::pair<std::string, std::string>> parseQuery(std::string_view query);
std::string percentDecode(std::string_view text);

/// Limits for clients. A client that exceeds one is refused or disconnected, so that other clients are served.
struct Limits {
  /// Connections at once; each uses a thread. At the limit, a new connection ends an existing one, the first of:
  /// - the oldest whose request gives way (Handler::givesWay()), if more than half of the limit do,
  /// - the longest idle one, if idle for at least a second,
  /// - the one that has been idle, or sending a request, for longest,
  /// - the one that has been reading its answer for longest, if for at least 5 s or a tenth of `readTimeout`.
  /// Without such a connection the new one gets 503.
  std::size_t maxConnections = 1024;
  std::size_t maxHeadBytes = std::size_t{64} * 1024;        ///< bytes of request line and headers; beyond it 431
  std::size_t maxHeaders = 256;                             ///< number of headers; beyond it 431
  std::size_t maxBodyBytes = std::size_t{3} * 1024 * 1024;  ///< bytes, the limit of a real API server; beyond it 413
  std::size_t maxUnreadBytes = std::size_t{256} * 1024 * 1024;  ///< bytes of all answers that clients have not yet read
  std::chrono::milliseconds firstByteTimeout{10'000};           ///< until the first byte of a new connection
  std::chrono::milliseconds idleTimeout{120'000};               ///< between two requests of one connection
  std::chrono::milliseconds requestTimeout{60'000};  ///< from a request's first byte to its last; beyond it 408
  std::chrono::milliseconds readTimeout{10'000};     ///< without the client reading any of its answer
  std::chrono::milliseconds answerTimeout{300'000};  ///< to read the whole answer; not for streams
};

/// PEM files for mutual TLS: the listener's certificate followed by its chain, its key, and the CA that must have
/// issued each client's certificate. The listener reads them again when they change.
struct TlsFiles {
  std::string certificate, key, clientCa;
  /// Names of the clients that may connect. A client's certificate must contain one of them exactly, as its subject's
  /// common name or as a DNS name, e-mail address or URI of its alternative names. Empty = every client with a
  /// certificate of the CA may connect.
  std::vector<std::string> clientNames{};
};

/// A server that listen() started. It serves until stop() or its destruction, which also end open watches.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual std::string address() const = 0;  ///< "127.0.0.1:7443", with the actual port
  /// Ends open streams, waits for running requests to finish, and joins all threads. Idempotent.
  virtual void stop() = 0;
};
/// Starts a listener on "host:port"; port 0 = any free port. "[::]:port" and ":port" mean all addresses, IPv4 and, if
/// the machine has it, IPv6. `handler` must outlive the listener. Fails with Code::invalid if the address can't be
/// parsed, with Code::unavailable if it can't be bound.
base::Result<std::unique_ptr<Listener>> listen(const std::string& address, Handler& handler, const Limits& limits = {});
/// Starts a listener that uses TLS. Also fails with Code::invalid if a file can't be used; the message names the file.
base::Result<std::unique_ptr<Listener>> listen(const std::string& address, Handler& handler, const Limits& limits,
                                               const TlsFiles& tls);

/// True if "host:port", or "host", can be reached only from this machine.
bool isLoopback(std::string_view address);

}  // namespace egpu::http
