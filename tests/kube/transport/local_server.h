// Real servers on loopback for the transport's tests: HTTP and HTTPS, raw sockets that misbehave, and certificates made
// on the spot.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace egpu::kube {

struct SeenRequest {
  std::string method, target, body;
  std::vector<std::pair<std::string, std::string>> headers;
  int remotePort = 0;                                 ///< tells connections apart
  std::string header(const std::string& name) const;  ///< any case; of several, joined by ","
};
struct Answer {
  int status = 200;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  /// If set: called for each chunk; appends to its argument; false = the end.
  std::function<bool(std::string&)> stream;
};

/// PEM texts.
struct Certificate {
  std::string certificate, key;
};
/// A certificate authority that signs certificates for one test run.
class Authority {
 public:
  Authority();
  const std::string& pem() const { return self_.certificate; }
  /// names: "DNS:x" or "IP:x"; empty = a client's.
  Certificate issue(const std::string& commonName, const std::string& names) const;

 private:
  Certificate self_;
};

/// HTTP/1.1, or HTTPS with `certificate`; `clientCa`: a client certificate of that authority is required. The handler
/// runs on many threads.
class LocalServer {
 public:
  using Handler = std::function<Answer(const SeenRequest&)>;
  explicit LocalServer(Handler handler, const Certificate* certificate = nullptr, const std::string& clientCa = {});
  ~LocalServer();
  int port() const;
  std::string url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Accepts connections and hands each one's socket to `serve` on a thread of its own; closes it afterwards.
class RawServer {
 public:
  explicit RawServer(std::function<void(int socket)> serve);
  ~RawServer();  ///< shuts all sockets down, so that no `serve` keeps waiting
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

/// Reads one HTTP/1.1 request (head and Content-Length body); empty at the end of the connection.
std::string readRequest(int socket);
void writeAll(int socket, const std::string& text);
/// Copies bytes both ways between two sockets until either ends.
void pump(int a, int b);
/// A connection to 127.0.0.1:port, or -1.
int dial(int port);
/// A port nobody listens on at this moment.
int freePort();

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
