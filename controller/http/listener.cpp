// The listener over cpp-httplib: it parses and frames; connections, threads and their end are handled here, because the
// library's own pool is of fixed size, polls idle connections every 10 ms and makes stop() wait for them.
#include <arpa/inet.h>
#include <httplib.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "controller/base/log.h"
#include "controller/http/http.h"

namespace egpu::http {
namespace {

constexpr std::size_t kMaxBody = std::size_t{3} * 1024 * 1024;  // as a real API server
constexpr std::size_t kMaxRequestBytes =
    std::size_t{64} * 1024 * 1024;             // read at all, the refused rest of a body included
constexpr std::size_t kMaxConnections = 1024;  // a thread each
constexpr int kIdleMilliseconds = 120'000;     // between two requests of one connection
constexpr int kReadMilliseconds = 10'000;      // within one request
constexpr int kWriteMilliseconds = 10'000;     // a client that reads nothing for so long is given up

/// One socket as the library's stream: buffered both ways, so that an answer's head and body leave in one packet.
class Connection final : public httplib::Stream {
 public:
  Connection(int fd, const std::atomic<bool>& stopping) : fd_(fd), stopping_(stopping) {}

  /// True when the next request has begun to arrive.
  bool awaitRequest() {
    received_ = 0;
    return begin_ < end_ || wait(POLLIN, kIdleMilliseconds);
  }
  bool flush() {
    std::size_t sent = 0;
    bool good = true;
    while (good && sent < out_.size()) {
      ssize_t n = ::send(fd_, out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0)
        sent += static_cast<std::size_t>(n);
      else if (n < 0 && errno == EINTR)
        continue;
      else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        good = wait(POLLOUT, kWriteMilliseconds);
      else
        good = false;
    }
    out_.clear();
    return good;
  }
  /// Whether the peer closed or broke the connection.
  bool peerGone() const {
    char c;
    ssize_t n = ::recv(fd_, &c, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  }

  bool is_readable() const override { return begin_ < end_ || wait(POLLIN, kReadMilliseconds); }
  bool is_writable() const override { return !broken_; }
  ssize_t read(char* to, size_t size) override {
    if (begin_ == end_) {
      if (received_ >= kMaxRequestBytes || !wait(POLLIN, kReadMilliseconds)) return -1;
      ssize_t n;
      do n = ::recv(fd_, in_.data(), in_.size(), 0);
      while (n < 0 && errno == EINTR);
      if (n <= 0) return n;
      begin_ = 0;
      end_ = static_cast<std::size_t>(n);
      received_ += end_;
    }
    const std::size_t n = std::min(size, end_ - begin_);
    std::memcpy(to, in_.data() + begin_, n);
    begin_ += n;
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* from, size_t size) override {
    if (broken_) return -1;
    out_.append(from, size);
    if (out_.size() >= std::size_t{64} * 1024 && !flush()) {
      broken_ = true;
      return -1;
    }
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override { nameOf(::getpeername, ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { nameOf(::getsockname, ip, port); }
  socket_t socket() const override { return fd_; }

 private:
  bool wait(short what, int milliseconds) const {
    if (stopping_.load() && what == POLLIN) return false;
    pollfd p{fd_, what, 0};
    int n;
    do n = ::poll(&p, 1, milliseconds);
    while (n < 0 && errno == EINTR);
    return n > 0;
  }
  template <class F>
  void nameOf(F call, std::string& ip, int& port) const {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (call(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return;
    if (address.ss_family == AF_INET) {
      auto* a = reinterpret_cast<sockaddr_in*>(&address);
      ::inet_ntop(AF_INET, &a->sin_addr, text.data(), text.size());
      port = ntohs(a->sin_port);
    } else if (address.ss_family == AF_INET6) {
      auto* a = reinterpret_cast<sockaddr_in6*>(&address);
      ::inet_ntop(AF_INET6, &a->sin6_addr, text.data(), text.size());
      port = ntohs(a->sin6_port);
    }
    ip = text.data();
  }

  const int fd_;
  const std::atomic<bool>& stopping_;
  std::array<char, 16'384> in_;
  std::size_t begin_ = 0, end_ = 0;
  std::size_t received_ = 0;
  std::string out_;
  bool broken_ = false;
};

/// A thread per connection, kept for the next one; as many as there are connections.
class ConnectionThreads final : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    tasks_.push_back(std::move(task));
    if (idle_ >= tasks_.size() || threads_.size() >= kMaxConnections) {
      wake_.notify_one();
      return;
    }
    threads_.emplace_back([this] { work(); });
  }
  void shutdown() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (auto& t : threads_) t.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      wake_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      --idle_;
      if (tasks_.empty()) return;
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::size_t idle_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

std::string statusBody(int code, std::string_view reason, std::string_view message) {
  return "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"" +
         std::string(message) + "\",\"reason\":\"" + std::string(reason) + "\",\"code\":" + std::to_string(code) + "}";
}

class HttpServer final : public httplib::Server {
 public:
  explicit HttpServer(http::Handler& handler) : handler_(handler) {
    new_task_queue = [] { return new ConnectionThreads; };
    set_payload_max_length(kMaxBody);
    // No routes: what is not found comes here with its body read, without matching a regular expression against the
    // path.
    set_error_handler(HandlerWithResponse([this](const httplib::Request& request, httplib::Response& response) {
      answer(request, response);
      return HandlerResponse::Handled;
    }));
  }

  /// The backlog of 5 that the library asks for makes bursts of connections wait a second.
  void widenBacklog() { ::listen(svr_sock_, 512); }

  void endConnections() {
    stopping_ = true;
    stopSource_.request_stop();
    std::lock_guard lock(mutex_);
    for (int fd : open_) ::shutdown(fd, SHUT_RD);  // what is being answered may still be sent
  }

 private:
  bool process_and_close_socket(socket_t fd) override {
    {
      std::lock_guard lock(mutex_);
      if (open_.size() >= kMaxConnections || stopping_) {
        ::close(fd);
        return false;
      }
      open_.insert(fd);
    }
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    Connection connection(fd, stopping_);
    current() = &connection;
    bool closed = false;
    while (!closed && !stopping_ && connection.awaitRequest()) {
      // A DELETE without a body carries no length; the library would wait for the connection's end.
      auto prepare = [](httplib::Request& request) {
        request.headers.erase(
            "Accept-Encoding");  // compressing on a loopback costs more than it saves, and delays watches
        if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding"))
          request.headers.emplace("Content-Length", "0");
      };
      if (!process_request(connection, false, closed, prepare)) closed = true;
      if (!connection.flush()) closed = true;
    }
    current() = nullptr;
    {
      std::lock_guard lock(mutex_);
      open_.erase(fd);
    }
    ::shutdown(fd, SHUT_WR);
    // What the client still sends would turn the close into a reset that could swallow the answer.
    char rest[4096];
    for (int i = 0; i < 256 && ::recv(fd, rest, sizeof rest, MSG_DONTWAIT) > 0; ++i) {
    }
    ::close(fd);
    return true;
  }

  // The library hides its stream from handlers, but a watch must push out each event.
  static Connection*& current() {
    thread_local Connection* connection = nullptr;
    return connection;
  }

  void answer(const httplib::Request& from, httplib::Response& to) {
    if (to.status != 404) {  // the library itself refused: it found no request, or too much of one
      const int code = to.status;
      const char* reason = code == 413 ? "RequestEntityTooLarge" : code == 414 ? "RequestURITooLong" : "BadRequest";
      to.set_content(
          statusBody(code, reason,
                     code == 413 ? "Request entity too large: limit is 3145728" : "the request can't be understood"),
          "application/json");
      to.set_header("Connection", "close");
      return;
    }
    Request request;
    request.method = from.method;
    const std::size_t mark = from.target.find('?');
    request.path = from.target.substr(0, mark);
    if (mark != std::string::npos) request.query = from.target.substr(mark + 1);
    for (const auto& [name, value] : from.headers) {
      std::string lower = name;
      std::transform(lower.begin(), lower.end(), lower.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      request.headers.emplace_back(std::move(lower), value);
    }
    request.body = from.body;
    Response response;
    try {
      response = handler_.handle(request, stopSource_.get_token());
    } catch (const std::exception& e) {
      base::log::error("a request failed", {{"path", request.path}, {"error", e.what()}});
      response = {};
      response.status = 500;
      response.body = statusBody(500, "InternalError", "Internal error occurred");
    }
    to.status = response.status;
    for (const auto& [name, value] : response.headers) to.set_header(name, value);
    if (!response.stream) {
      to.set_content(response.body, response.contentType);
      return;
    }
    std::shared_ptr<BodyStream> stream = std::move(response.stream);  // the library copies its providers
    to.set_chunked_content_provider(response.contentType, [this, stream](std::size_t, httplib::DataSink& sink) {
      Connection* connection = current();
      if (!connection || !connection->flush()) return false;  // the head at once: clients wait for it
      std::string chunk;
      const bool more = stream->next(chunk, stopSource_.get_token());
      if (!chunk.empty() && (!sink.write(chunk.data(), chunk.size()) || !connection->flush())) return false;
      if (!more) {
        sink.done();
        return true;
      }
      return !connection->peerGone();
    });
  }

  http::Handler& handler_;
  std::atomic<bool> stopping_{false};
  std::stop_source stopSource_;
  std::mutex mutex_;
  std::set<int> open_;
};

class HttplibListener final : public Listener {
 public:
  explicit HttplibListener(Handler& handler) : server_(handler) {}
  ~HttplibListener() override { stop(); }

  base::Status start(const std::string& address) {
    const std::size_t colon = address.rfind(':');
    if (colon == std::string::npos) return {base::Code::invalid, "\"" + address + "\" is not host:port"};
    std::string host = address.substr(0, colon);
    const std::string digits = address.substr(colon + 1);
    if (digits.empty() || digits.size() > 5 || digits.find_first_not_of("0123456789") != std::string::npos ||
        std::stoi(digits) > 65535)
      return {base::Code::invalid, "\"" + digits + "\" is not a port"};
    const std::string shown = host;
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    // Two listeners on one port must fail, not share it: the library's default options would allow it.
    server_.set_socket_options([](socket_t fd) {
      const int on = 1;
      ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    int port = std::stoi(digits);
    errno = 0;
    if (port == 0) {
      port = server_.bind_to_any_port(host);
    } else if (!server_.bind_to_port(host, port)) {
      port = -1;
    }
    if (port <= 0)
      return {base::Code::unavailable,
              "can't listen on " + address + (errno ? std::string(": ") + std::strerror(errno) : std::string())};
    server_.widenBacklog();
    address_ = shown + ":" + std::to_string(port);
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    return {};
  }

  std::string address() const override { return address_; }

  void stop() override {
    std::lock_guard lock(mutex_);
    if (!thread_.joinable()) return;
    while (!server_.is_running()) std::this_thread::yield();  // stop() before the accept loop began would be lost
    server_.endConnections();
    server_.stop();
    thread_.join();
  }

 private:
  HttpServer server_;
  std::string address_;
  std::mutex mutex_;
  std::thread thread_;
};

}  // namespace

base::Result<std::unique_ptr<Listener>> listen(const std::string& address, Handler& handler) {
  auto listener = std::make_unique<HttplibListener>(handler);
  base::Status status = listener->start(address);
  if (!status.ok()) return status;
  return std::unique_ptr<Listener>(std::move(listener));
}

}  // namespace egpu::http
