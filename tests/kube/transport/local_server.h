// Real servers on loopback for the transport's tests: HTTP and HTTPS, proxies, and raw sockets that misbehave.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/kube/transport/certificates.h"

namespace egpu::kube {

struct SeenRequest {
  std::string method, target, body;
  std::vector<std::pair<std::string, std::string>> headers;
  int remotePort = 0;                                 ///< identifies the connection
  std::string header(const std::string& name) const;  ///< any case; several values are joined by ","
};
struct CannedAnswer {
  int status = 200;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  /// If set: called for each chunk. It appends to its argument and returns false at the end.
  std::function<bool(std::string&)> stream;
};

/// An HTTP/1.1 server, or HTTPS with `certificate`. `clientCa`: requires a client certificate of that authority. The
/// handler runs on many threads.
class LocalServer {
 public:
  using Handler = std::function<CannedAnswer(const SeenRequest&)>;
  explicit LocalServer(Handler handler, const Certificate* certificate = nullptr, const std::string& clientCa = {});
  ~LocalServer();
  int port() const;
  std::string url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Accepts connections and passes each socket to `serve` on a thread of its own; closes the socket afterwards.
class RawServer {
 public:
  explicit RawServer(std::function<void(int socket)> serve);
  ~RawServer();  ///< shuts all sockets down, so that each `serve` returns
  int port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int connections() const { return connections_; }

 private:
  const std::function<void(int)> serve_;
  int listen_ = -1, port_ = 0;
  std::atomic<int> connections_{0};
  std::mutex mutex_;
  std::vector<int> open_;
  std::vector<std::jthread> workers_;
  std::jthread accepting_;
};

/// Reads one HTTP/1.1 request (head and Content-Length body). Returns an empty text at the end of the connection.
std::string readRequest(int socket);
void writeAll(int socket, const std::string& text);
/// Copies bytes both ways between two sockets until either ends.
void pump(int a, int b);
/// Returns a connection to 127.0.0.1:port, or -1.
int dial(int port);
/// Returns a port without a listener.
int freePort();

/// A proxy on loopback that connects every host to 127.0.0.1: CONNECT, plain HTTP requests in absolute form, and
/// SOCKS5.
class ForwardProxy {
 public:
  /// credentials: required "user:password" (CONNECT only); empty = none.
  explicit ForwardProxy(std::string credentials = {});
  int port() const { return server_.port(); }
  /// Heads of HTTP requests, and "SOCKS host:port".
  std::vector<std::string> seen() const;

 private:
  void serve(int socket);
  void serveSocks(int socket);
  void note(std::string what);
  const std::string credentials_;
  mutable std::mutex mutex_;
  std::vector<std::string> seen_;
  RawServer server_;  ///< last member: its threads use all members above
};

/// nghttpx with an HTTP/2 front over TLS before an HTTP/1.1 back end.
class Http2Proxy {
 public:
  Http2Proxy(int backendPort, const Certificate& certificate, const std::string& folder);
  ~Http2Proxy();
  static bool available();  ///< nghttpx is installed
  int port() const { return port_; }

 private:
  int port_ = 0;
  int pid_ = -1;
};

}  // namespace egpu::kube
