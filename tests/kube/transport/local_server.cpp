#include "tests/kube/transport/local_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <httplib.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

extern char** environ;

namespace egpu::kube {

namespace {

bool useTls(SSL_CTX& context, const Certificate& certificate, const std::string& clientCa) {
  const auto bioOf = [](const std::string& text) {
    return BIO_new_mem_buf(text.data(), static_cast<int>(text.size()));
  };
  BIO* c = bioOf(certificate.certificate);
  BIO* k = bioOf(certificate.key);
  X509* cert = PEM_read_bio_X509(c, nullptr, nullptr, nullptr);
  EVP_PKEY* key = PEM_read_bio_PrivateKey(k, nullptr, nullptr, nullptr);
  bool ok = SSL_CTX_use_certificate(&context, cert) == 1 && SSL_CTX_use_PrivateKey(&context, key) == 1;
  if (!clientCa.empty()) {
    BIO* a = bioOf(clientCa);
    X509* ca = PEM_read_bio_X509(a, nullptr, nullptr, nullptr);
    ok = ok && X509_STORE_add_cert(SSL_CTX_get_cert_store(&context), ca) == 1;
    SSL_CTX_set_verify(&context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    X509_free(ca);
    BIO_free(a);
  }
  X509_free(cert);
  EVP_PKEY_free(key);
  BIO_free(c);
  BIO_free(k);
  return ok;
}

}  // namespace

std::string SeenRequest::header(const std::string& name) const {
  std::string out;
  for (const auto& [k, v] : headers)
    if (strcasecmp(k.c_str(), name.c_str()) == 0) out += (out.empty() ? "" : ",") + v;
  return out;
}

struct LocalServer::Impl {
  Handler handler;
  std::unique_ptr<httplib::Server> server;
  bool tls = false;
  int port = 0;
  std::jthread thread;

  void serve(const httplib::Request& in, httplib::Response& out) {
    SeenRequest request{in.method, in.target, in.body, {in.headers.begin(), in.headers.end()}, in.remote_port};
    CannedAnswer answer = handler(request);
    out.status = answer.status;
    for (const auto& [k, v] : answer.headers) out.set_header(k, v);
    if (!answer.stream) {
      out.set_content(answer.body, "application/json");
      return;
    }
    out.set_chunked_content_provider("application/json;stream=watch",
                                     [next = std::move(answer.stream)](std::size_t, httplib::DataSink& sink) {
                                       std::string chunk;
                                       const bool more = next(chunk);
                                       if (!chunk.empty() && !sink.write(chunk.data(), chunk.size())) return false;
                                       if (!more) sink.done();
                                       return true;
                                     });
  }
};

LocalServer::LocalServer(Handler handler, const Certificate* certificate, const std::string& clientCa)
    : impl_(std::make_unique<Impl>()) {
  impl_->handler = std::move(handler);
  impl_->tls = certificate != nullptr;
  if (certificate != nullptr)
    impl_->server =
        std::make_unique<httplib::SSLServer>([&](SSL_CTX& context) { return useTls(context, *certificate, clientCa); });
  else
    impl_->server = std::make_unique<httplib::Server>();
  auto& server = *impl_->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(96); };
  server.set_tcp_nodelay(true);
  server.set_keep_alive_max_count(1'000'000);
  const auto serve = [this](const httplib::Request& in, httplib::Response& out) { impl_->serve(in, out); };
  server.Get(".*", serve);
  server.Post(".*", serve);
  server.Put(".*", serve);
  server.Patch(".*", serve);
  server.Delete(".*", serve);
  impl_->port = server.bind_to_any_port("127.0.0.1");
  impl_->thread = std::jthread([this] { impl_->server->listen_after_bind(); });
  while (!server.is_running()) std::this_thread::yield();
}
LocalServer::~LocalServer() { impl_->server->stop(); }
int LocalServer::port() const { return impl_->port; }
std::string LocalServer::url() const {
  return (impl_->tls ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(impl_->port);
}

namespace {
int listenOn(int& port) {
  const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)bind(s, reinterpret_cast<sockaddr*>(&address), sizeof address);
  (void)listen(s, 64);
  socklen_t size = sizeof address;
  (void)getsockname(s, reinterpret_cast<sockaddr*>(&address), &size);
  port = ntohs(address.sin_port);
  return s;
}
}  // namespace

RawServer::RawServer(std::function<void(int)> serve) : serve_(std::move(serve)) {
  listen_ = listenOn(port_);
  accepting_ = std::jthread([this] {
    for (;;) {
      const int s = accept4(listen_, nullptr, nullptr, SOCK_CLOEXEC);
      if (s < 0) return;
      ++connections_;
      std::lock_guard lock(mutex_);
      open_.push_back(s);
      workers_.emplace_back([this, s] {
        serve_(s);
        std::lock_guard closing(mutex_);
        std::erase(open_, s);
        close(s);
      });
    }
  });
}
RawServer::~RawServer() {
  shutdown(listen_, SHUT_RDWR);
  accepting_.join();
  {
    std::lock_guard lock(mutex_);
    for (const int s : open_) shutdown(s, SHUT_RDWR);
  }
  workers_.clear();
  close(listen_);
}

std::string readRequest(int socket) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const auto head = text.find("\r\n\r\n");
    if (head != std::string::npos) {
      std::size_t length = 0;
      const auto at = text.find("Content-Length: ");
      if (at != std::string::npos && at < head) length = std::stoul(text.substr(at + 16));
      if (text.size() >= head + 4 + length) return text;
    }
    const ssize_t n = recv(socket, buffer, sizeof buffer, 0);
    if (n <= 0) return {};
    text.append(buffer, static_cast<std::size_t>(n));
  }
}
void writeAll(int socket, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = send(socket, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}
int dial(int port) {
  const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(s, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return s;
  close(s);
  return -1;
}
void pump(int a, int b) {
  pollfd both[2] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
  std::string buffer(65536, '\0');
  while (poll(both, 2, -1) > 0)
    for (int i = 0; i < 2; ++i) {
      if (both[i].revents == 0) continue;
      const ssize_t n = recv(both[i].fd, buffer.data(), buffer.size(), 0);
      if (n <= 0) return;
      writeAll(both[1 - i].fd, buffer.substr(0, static_cast<std::size_t>(n)));
    }
}
ForwardProxy::ForwardProxy(std::string credentials)
    : credentials_(std::move(credentials)), server_([this](int socket) { serve(socket); }) {}

std::vector<std::string> ForwardProxy::seen() const {
  std::lock_guard lock(mutex_);
  return seen_;
}

void ForwardProxy::note(std::string what) {
  std::lock_guard lock(mutex_);
  seen_.push_back(std::move(what));
}

void ForwardProxy::serve(int socket) {
  char first = 0;
  if (recv(socket, &first, 1, MSG_PEEK) == 1 && first == 5) return serveSocks(socket);
  for (;;) {
    const std::string request = readRequest(socket);
    if (request.empty()) return;
    note(request);
    const bool connects = request.rfind("CONNECT ", 0) == 0;
    if (connects && !credentials_.empty() &&
        request.find("Proxy-Authorization: Basic " + credentials_) == std::string::npos) {
      writeAll(socket, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
      continue;
    }
    const auto scheme = request.find("://");
    const auto begin = connects ? request.find(' ') + 1 : scheme + 3;
    const auto end = request.find_first_of(connects ? " " : "/ ", begin);
    const std::string authority = request.substr(begin, end - begin);
    const int back = dial(std::atoi(authority.substr(authority.rfind(':') + 1).c_str()));
    if (back < 0) return;
    if (connects)
      writeAll(socket, "HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n");
    else
      writeAll(back, request.substr(0, request.find(' ') + 1) + request.substr(end));
    pump(socket, back);
    close(back);
    return;
  }
}

void ForwardProxy::serveSocks(int socket) {
  const auto take = [socket](std::size_t n) {
    std::string out(n, '\0');
    return recv(socket, out.data(), n, MSG_WAITALL) == static_cast<ssize_t>(n) ? out : std::string();
  };
  const auto byte = [](const std::string& text, std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::string greeting = take(2);
  if (greeting.empty() || take(byte(greeting, 1)).empty()) return;
  writeAll(socket, std::string("\x05\x00", 2));  // no authentication
  const std::string head = take(4);
  if (head.size() != 4 || byte(head, 3) != 3) return;  // a host name, which the proxy resolves
  const std::string host = take(byte(take(1), 0)), port = take(2);
  const int number = byte(port, 0) << 8 | byte(port, 1);
  note("SOCKS " + host + ":" + std::to_string(number));
  const int back = dial(number);
  if (back < 0) return;
  writeAll(socket, std::string("\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00", 10));
  pump(socket, back);
  close(back);
}

int freePort() {
  int port = 0;
  close(listenOn(port));
  return port;
}

bool Http2Proxy::available() { return access("/usr/sbin/nghttpx", X_OK) == 0 || access("/usr/bin/nghttpx", X_OK) == 0; }

Http2Proxy::Http2Proxy(int backendPort, const Certificate& certificate, const std::string& folder) {
  std::ofstream(folder + "/proxy.key") << certificate.key;
  std::ofstream(folder + "/proxy.crt") << certificate.certificate;
  std::ofstream(folder + "/proxy.conf") << "";
  for (int attempt = 0; attempt < 5 && pid_ < 0; ++attempt) {  // another process may take the free port first
    port_ = freePort();
    std::vector<std::string> args{"nghttpx",
                                  "--conf=" + folder + "/proxy.conf",
                                  "-f127.0.0.1," + std::to_string(port_),
                                  "-b127.0.0.1," + std::to_string(backendPort),
                                  "--workers=1",
                                  "--log-level=ERROR",
                                  "--single-process",
                                  "--errorlog-file=" + folder + "/proxy.log",
                                  folder + "/proxy.key",
                                  folder + "/proxy.crt"};
    std::vector<char*> argv;
    for (auto& a : args) argv.push_back(a.data());
    argv.push_back(nullptr);
    const char* path = access("/usr/sbin/nghttpx", X_OK) == 0 ? "/usr/sbin/nghttpx" : "/usr/bin/nghttpx";
    pid_t pid = -1;
    if (posix_spawn(&pid, path, nullptr, nullptr, argv.data(), environ) != 0) return;
    for (;;) {
      const int s = dial(port_);
      if (s >= 0) {
        close(s);
        pid_ = pid;
        break;
      }
      int status = 0;
      if (waitpid(pid, &status, WNOHANG) == pid) break;  // nghttpx failed to start
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}
Http2Proxy::~Http2Proxy() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
}

}  // namespace egpu::kube
