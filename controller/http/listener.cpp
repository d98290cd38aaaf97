// Listener on top of cpp-httplib. The library parses and frames messages. This file manages connections and threads,
// because the library's own pool has a fixed size, polls idle connections every 10 ms and makes stop() wait for them.
#include <fcntl.h>
#include <httplib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "controller/base/log.h"
#include "controller/base/mutex.h"
#include "controller/http/connection.h"
#include "controller/http/head.h"
#include "controller/http/http.h"
#include "controller/http/listening_socket.h"

namespace egpu::http {
namespace {

using Phase = Activity::Phase;
using Steady = Activity::Steady;

constexpr std::chrono::milliseconds kCloseTimeout{1'000};  // to wait for an ended connection to close
constexpr std::chrono::milliseconds kShortage{10};         // until the next try without a free descriptor or thread
constexpr std::chrono::milliseconds kUnused{1'000};        // idle this long: ended before one that sends a request
constexpr std::chrono::milliseconds kSlowReader{5'000};    // an answer may be cut for a new connection after this time
constexpr int kSlowReaderPart = 10;                        // or after Limits::stall divided by this, if that is shorter
constexpr std::chrono::milliseconds kLastWords{3'000};     // for clients to read their answers when the listener stops

/// Thread pool with one thread per open connection. Threads are reused. Only one thread may call ready() and run().
class ConnectionThreads final {
 public:
  /// True if there is a thread for another task. Creates one if necessary; false if that fails.
  bool ready() {
    base::MutexLock lock(mutex_);
    if (threads_.size() > busy_ + tasks_.size()) return true;
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }
  /// Runs the task on a thread. Call only after ready() returned true.
  void run(std::function<void()> task) {
    {
      base::MutexLock lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
  }
  void join() {
    {
      base::MutexLock lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (auto& t : threads_) t.join();
    threads_.clear();
  }

 private:
  void work() {
    base::MutexLock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&]() EGPU_REQUIRES(mutex_) { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      ++busy_;
      lock.unlock();
      task();
      lock.lock();
      --busy_;
    }
  }
  base::Mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::function<void()>> tasks_ EGPU_GUARDED_BY(mutex_);
  std::size_t busy_ EGPU_GUARDED_BY(mutex_) = 0;  ///< threads with a task
  bool stopping_ EGPU_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  ///< used by the thread that calls ready(), and after it by join()
};

/// Tracks the open connections and their states, and chooses the connections to end. Thread-safe.
class Connections {
 public:
  explicit Connections(const Limits& limits) : limits_(limits), poller_(::epoll_create1(EPOLL_CLOEXEC)) {}
  ~Connections() { ::close(poller_); }

  /// True if another connection is allowed. Ends one if necessary and possible (Limits::connections). Called by one
  /// thread.
  bool endIdleConnection() {
    base::MutexLock lock(mutex_);
    if (open_.size() < limits_.maxConnections) return true;
    if (living() >= limits_.maxConnections && !endOne()) return false;
    return left_.wait_for(lock, kCloseTimeout,
                          [&]() EGPU_REQUIRES(mutex_) { return open_.size() < limits_.maxConnections; });
  }
  /// Ends a connection to free a descriptor or a thread. Returns false if no connection may be ended.
  bool endIdle() {
    base::MutexLock lock(mutex_);
    return endOne();
  }
  void add(Activity& activity) {
    epoll_event event{};
    {
      base::MutexLock lock(mutex_);
      activity.number = ++last_;
      open_[activity.number] = &activity;
    }
    event.events = EPOLLRDHUP | EPOLLET;  // epoll always reports errors and hang-ups
    event.data.u64 = activity.number;     // not the descriptor, because the system reuses descriptors
    ::epoll_ctl(poller_, EPOLL_CTL_ADD, activity.fd, &event);
  }
  /// Stops tracking the connection. Call before its descriptor is closed.
  void remove(Activity& activity) {
    ::epoll_ctl(poller_, EPOLL_CTL_DEL, activity.fd, nullptr);
    {
      base::MutexLock lock(mutex_);
      open_.erase(activity.number);
      pending_ -= activity.pending;
    }
    left_.notify_all();
  }

  /// Marks the connection's request as being answered. The returned token is stopped when the client disconnects or the
  /// listener stops.
  std::stop_token begin(Activity& activity, bool givesWay) {
    base::MutexLock lock(mutex_);
    activity.givesWay = givesWay;
    activity.enter(Phase::answering);
    activity.stop = std::stop_source();
    if (stopping_ || activity.gone) activity.stop.request_stop();
    return activity.stop.get_token();
  }
  /// Records that the connection has an answer of `bytes` bytes that the client has not yet read. Ends the slowest
  /// readers while all answers together exceed Limits::answers.
  void hold(Activity& activity, std::size_t bytes) {
    base::MutexLock lock(mutex_);
    while (pending_ + bytes > limits_.maxUnreadBytes) {
      Activity* slowest = longest(Phase::writing);
      if (slowest == nullptr) break;
      pending_ -= std::exchange(slowest->pending, 0);
      end(*slowest);
    }
    pending_ += bytes;
    activity.pending = bytes;
  }
  void finishActivity(Activity& activity) {
    base::MutexLock lock(mutex_);
    pending_ -= std::exchange(activity.pending, 0);
  }

  /// Stops requests whose clients have disconnected. Returns when the eventfd of watchUntil() is written.
  void watch() {
    std::array<epoll_event, 64> events;
    for (;;) {
      const int n = ::epoll_wait(poller_, events.data(), static_cast<int>(events.size()), -1);
      if (n < 0 && errno != EINTR) return;
      for (int i = 0; i < n; ++i) {
        std::optional<std::stop_source> gone;
        {
          base::MutexLock lock(mutex_);
          const uint64_t number = events[static_cast<std::size_t>(i)].data.u64;
          if (number == kWake) return;
          const auto it = open_.find(number);
          if (it == open_.end()) continue;
          it->second->gone = true;
          gone = it->second->stop;
        }
        if (gone) gone->request_stop();  // without the lock, because it runs the stop callbacks
      }
    }
  }
  /// Makes watch() return when the eventfd `wake` is written.
  void watchUntil(int wake) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kWake;
    ::epoll_ctl(poller_, EPOLL_CTL_ADD, wake, &event);
  }

  /// Stops reading requests and requests a stop of those being answered. Returns when all connections are closed.
  /// Disconnects clients that have not read their answers after `kLastWords`.
  void stopAll() {
    std::vector<std::stop_source> working;
    {
      base::MutexLock lock(mutex_);
      stopping_ = true;
      for (const auto& [number, activity] : open_) {
        working.push_back(activity->stop);
        ::shutdown(activity->fd, SHUT_RD);  // answers may still be sent
      }
    }
    for (auto& each : working) each.request_stop();
    base::MutexLock lock(mutex_);
    const auto none = [&]() EGPU_REQUIRES(mutex_) { return open_.empty(); };
    while (!left_.wait_for(lock, kLastWords, none))
      for (const auto& [number, activity] : open_)
        if (activity->phase == Phase::writing || activity->phase == Phase::idle) ::shutdown(activity->fd, SHUT_RDWR);
  }

 private:
  std::size_t living() const EGPU_REQUIRES(mutex_) {
    return static_cast<std::size_t>(
        std::count_if(open_.begin(), open_.end(), [](const auto& each) { return !each.second->ended; }));
  }
  Activity* longest(Phase phase) const EGPU_REQUIRES(mutex_) {
    Activity* found = nullptr;
    for (const auto& [number, activity] : open_)
      if (!activity->ended && activity->phase == phase && (found == nullptr || activity->since < found->since))
        found = activity;
    return found;
  }
  static Steady::duration stood(const Activity& activity) {
    return Steady::now() - Steady::time_point(Steady::duration(activity.since));
  }
  bool endOne() EGPU_REQUIRES(mutex_) {
    std::vector<Activity*> givingWay;
    for (const auto& [number, activity] : open_)
      if (!activity->ended && activity->givesWay) givingWay.push_back(activity);
    if (givingWay.size() > limits_.maxConnections / 2) {
      end(*givingWay.front());  // the oldest, so that new requests of this kind are also answered
      return true;
    }
    // A new connection is idle, too. During a flood of requests that are never completed it must not be ended first.
    Activity* found = longest(Phase::idle);
    Activity* reading = longest(Phase::reading);
    if (reading != nullptr && (found == nullptr || (stood(*found) < kUnused && reading->since < found->since)))
      found = reading;
    if (found == nullptr) {
      found = longest(Phase::writing);
      const auto patience = std::min<Steady::duration>(kSlowReader, limits_.readTimeout / kSlowReaderPart);
      if (found == nullptr || stood(*found) < patience) return false;
    }
    end(*found);
    return true;
  }
  static void end(Activity& activity) {
    activity.ended = true;
    ::shutdown(activity.fd, SHUT_RDWR);
  }

  const Limits& limits_;
  const int poller_;
  static constexpr uint64_t kWake = 0;
  base::Mutex mutex_;
  std::condition_variable_any left_;
  std::map<uint64_t, Activity*> open_ EGPU_GUARDED_BY(mutex_);  ///< by number
  uint64_t last_ EGPU_GUARDED_BY(mutex_) = kWake;
  std::size_t pending_ EGPU_GUARDED_BY(mutex_) = 0;
  bool stopping_ EGPU_GUARDED_BY(mutex_) = false;
};

/// Serves connections that this file accepts. The library parses and frames their messages.
class HttpServer final : public httplib::Server {
 public:
  /// tls: null = no TLS.
  HttpServer(http::Handler& handler, const Limits& limits, std::unique_ptr<Tls> tls)
      : handler_(handler), limits_(limits), tls_(std::move(tls)), connections_(limits_) {
    set_payload_max_length(limits_.maxBodyBytes);
    set_keep_alive_timeout(std::chrono::duration_cast<std::chrono::seconds>(limits_.idleTimeout).count());
    set_keep_alive_max_count(1'000'000);  // sent to clients in a header; no code enforces it
    // There are no routes. The library calls the error handler for every request, with its body read, and matches no
    // regular expression against the path.
    set_error_handler(HandlerWithResponse([this](const httplib::Request& request, httplib::Response& response) {
      answer(request, response);
      return HandlerResponse::Handled;
    }));
  }

  Connections& connections() { return connections_; }
  /// Sets the listening socket, without which the library does not send streams.
  void listensOn(int fd) { svr_sock_ = fd; }
  void setStopping() { stopping_ = true; }
  bool secured() const { return tls_ != nullptr; }

  /// Serves a connection until it ends, and closes it.
  void serve(Activity& activity) {
    const int fd = activity.fd;
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (tls_) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    Connection connection(fd, limits_, stopping_, activity, tls_ ? tls_->session() : TlsSession(nullptr, SSL_free));
    const bool unread = !connection.secure() || exchange(connection, activity);
    connection.finish(unread);
    connections_.remove(activity);
    ::close(fd);
  }

 private:
  struct Current {
    Connection* connection = nullptr;
    Activity* activity = nullptr;
    const Head* head = nullptr;
    bool refused = false;  ///< the body is possibly not read completely
  };
  // The library does not give its stream to handlers, but a watch must flush each event.
  static Current& current() {
    thread_local Current current;
    return current;
  }

  /// Reads and answers requests one after the other until the connection ends. Returns true if the last request may not
  /// have been read completely.
  bool exchange(Connection& connection, Activity& activity) {
    bool closed = false;
    for (bool first = true; !closed && !stopping_; first = false) {
      const auto arrived = connection.awaitRequest(first);
      if (!arrived) return false;
      const auto* head = std::get_if<Head>(&*arrived);
      if (head == nullptr) {
        const std::string text = refusalAnswer(std::get<RequestRefusal>(*arrived));
        connection.beginAnswer(false);
        connection.write(text.data(), text.size());
        return true;
      }
      current() = {&connection, &activity, head, false};
      const bool served = process_request(connection, head->closes, closed, {});
      const bool sent = connection.flush();
      const bool refused = std::exchange(current(), {}).refused;
      connections_.finishActivity(activity);
      if (!served || !sent || refused || head->closes) return true;
    }
    return false;
  }

  static void refuse(const RequestRefusal& refusal, httplib::Response& to) {
    to.status = refusal.status;
    to.set_content(statusBody(refusal), "application/json");
    to.set_header("Connection", "close");
  }

  /// Returns why the request is not passed to the handler, or nullopt if it is.
  std::optional<RequestRefusal> refusalOf(const httplib::Request& from, const httplib::Response& to) const {
    if (auto refused = current().connection->bodyRefused()) return refused;
    if (to.status != 404)  // any other status means that the library could not parse the request
      return RequestRefusal{to.status, "BadRequest", "the request can't be understood"};
    if (from.body.size() > limits_.maxBodyBytes)
      return RequestRefusal{413, "RequestEntityTooLarge",
                            "Request entity too large: limit is " + std::to_string(limits_.maxBodyBytes)};
    return std::nullopt;
  }

  static Request requestOf(const Head& head, const httplib::Request& from) {
    Request request;
    request.method = head.method;
    const std::size_t mark = head.target.find('?');
    request.path = head.target.substr(0, mark);
    if (mark != std::string::npos) request.query = head.target.substr(mark + 1);
    request.headers = head.headers;
    request.body = from.body;
    return request;
  }

  Response handled(const Request& request, const std::stop_token& stop) {
    try {
      return handler_.handle(request, stop);
    } catch (const std::exception& e) {
      base::log::error("a request failed", {{"path", request.path}, {"error", e.what()}});
      Response response;
      response.status = 500;
      response.body = statusBody({500, "InternalError", "Internal error occurred"});
      return response;
    }
  }

  void answer(const httplib::Request& from, httplib::Response& to) {
    Connection* const connection = current().connection;
    if (const auto refusal = refusalOf(from, to)) {
      current().refused = true;
      connection->beginAnswer(false);
      refuse(*refusal, to);
      return;
    }
    const Request request = requestOf(*current().head, from);
    const auto stop = connections_.begin(*current().activity, handler_.givesWay(request));
    Response response = handled(request, stop);
    if (!response.stream) connections_.hold(*current().activity, response.body.size());
    connection->beginAnswer(response.stream != nullptr);
    to.status = response.status;
    for (const auto& [name, value] : response.headers) to.set_header(name, value);
    if (response.stream) {
      stream(*connection, stop, std::move(response), to);
      return;
    }
    to.body = std::move(response.body);
    to.set_header("Content-Type", response.contentType);
  }

  static void stream(Connection& connection, const std::stop_token& stop, Response response, httplib::Response& to) {
    std::shared_ptr<BodyStream> body = std::move(response.stream);  // shared, because the library copies its providers
    to.set_chunked_content_provider(
        response.contentType, [&connection, stop, body](std::size_t, httplib::DataSink& sink) {
          if (!connection.flush()) return false;  // sends the head immediately, because clients wait for it
          std::string chunk;
          const bool more = body->next(chunk, stop);
          if (!chunk.empty() && (!sink.write(chunk.data(), chunk.size()) || !connection.flush())) return false;
          if (!more) {
            sink.done();
            return true;
          }
          return !connection.peerGone();
        });
  }

  http::Handler& handler_;
  const Limits limits_;
  const std::unique_ptr<Tls> tls_;
  std::atomic<bool> stopping_{false};
  Connections connections_;
};

class HttplibListener final : public Listener {
 public:
  HttplibListener(Handler& handler, const Limits& limits, ListeningSocket socket, std::unique_ptr<Tls> tls)
      : server_(handler, limits, std::move(tls)),
        address_(std::move(socket.address)),
        socket_(socket.fd),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    server_.listensOn(socket_);
    server_.connections().watchUntil(wake_);
    watching_ = std::thread([this] { server_.connections().watch(); });
    accepting_ = std::thread([this] { accept(); });
  }
  ~HttplibListener() override { stop(); }

  std::string address() const override { return address_; }

  void stop() override {
    base::MutexLock lock(mutex_);
    if (!accepting_.joinable()) return;
    server_.setStopping();
    const uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(wake_, &one, sizeof one);
    accepting_.join();
    ::close(socket_);
    server_.connections().stopAll();
    threads_.join();
    watching_.join();
    ::close(wake_);
  }

 private:
  /// Accepts connections until wake_ is written.
  void accept() {
    std::array<pollfd, 2> ready{{{socket_, POLLIN, 0}, {wake_, POLLIN, 0}}};
    for (;;) {
      if (::poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) return;
      if (ready[1].revents != 0) return;
      const int fd = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) {
        admit(fd);
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        server_.connections().endIdle();
        std::this_thread::sleep_for(kShortage);
      }  // any other error means that the client has already disconnected
    }
  }
  /// True if there is a thread for another connection. If none can be created, ends a connection and waits for its
  /// thread.
  bool makeThread() {
    bool ended = false;
    for (std::chrono::milliseconds waited{0}; waited < kCloseTimeout; waited += kShortage) {
      if (threads_.ready()) return true;
      ended = ended || server_.connections().endIdle();
      std::this_thread::sleep_for(kShortage);
    }
    return false;
  }
  void admit(int fd) {
    if (server_.connections().endIdleConnection() && makeThread()) {
      const auto activity = std::make_shared<Activity>(fd);
      server_.connections().add(*activity);
      threads_.run([this, activity] { server_.serve(*activity); });
      return;
    }
    const std::string text = refusalAnswer({503, "ServiceUnavailable", "too many requests at once: try again"});
    if (!server_.secured()) ::send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ::shutdown(fd, SHUT_WR);
    char rest[4096];
    for (int i = 0; i < 16 && ::recv(fd, rest, sizeof rest, MSG_DONTWAIT) > 0; ++i) {
    }
    ::close(fd);
  }

  HttpServer server_;
  const std::string address_;
  const int socket_;
  const int wake_;
  base::Mutex mutex_;
  ConnectionThreads threads_;
  std::thread watching_ EGPU_GUARDED_BY(mutex_), accepting_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace

base::Result<std::unique_ptr<Listener>> listen(const std::string& address, Handler& handler, const Limits& limits) {
  auto socket = openListeningSocket(address);
  if (!socket) return socket.status();
  return std::unique_ptr<Listener>(std::make_unique<HttplibListener>(handler, limits, std::move(*socket), nullptr));
}

base::Result<std::unique_ptr<Listener>> listen(const std::string& address, Handler& handler, const Limits& limits,
                                               const TlsFiles& files) {
  auto tls = Tls::load(files);
  if (!tls) return tls.status();
  auto socket = openListeningSocket(address);
  if (!socket) return socket.status();
  return std::unique_ptr<Listener>(
      std::make_unique<HttplibListener>(handler, limits, std::move(*socket), std::move(*tls)));
}

}  // namespace egpu::http
