// One client's connection: the library's stream over it, with deadlines for all that the client has to do. Internal to
// http/.
#pragma once

#include <httplib.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "controller/http/head.h"
#include "controller/http/http.h"
#include "controller/http/tls.h"

namespace egpu::http {

/// What a connection is doing, for those who look for one to end. Thread-safe but for `stop`.
struct Activity {
  enum class Phase { idle, reading, answering, writing };
  using Steady = std::chrono::steady_clock;

  explicit Activity(int socket) : fd(socket) {}
  void enter(Phase next) {
    since = Steady::now().time_since_epoch().count();
    phase = next;
  }
  const int fd;
  std::atomic<Phase> phase{Phase::idle};
  /// Of that. A first request counts from when it was accepted, who is about to leave from what it did last: on a busy
  /// machine threads come to it late, and who has just come would look older.
  std::atomic<Steady::rep> since{Steady::now().time_since_epoch().count()};
  // Guarded by the listener's mutex:
  uint64_t number = 0;      ///< which nobody else had or will have
  std::stop_source stop;    ///< of the request being answered
  std::size_t pending = 0;  ///< bytes of its answer
  bool givesWay = false;    ///< its last request, Handler::givesWay()
  bool gone = false;        ///< the client sends no more; nobody waits for what is asked
  bool ended = false;       ///< its socket is shut down, its thread is about to leave
};

/// Used by one thread. Input and output are buffered, so that an answer's head and body leave in one packet.
class Connection final : public httplib::Stream {
 public:
  /// tls: null = plain; with one the socket must not block, and secure() comes first.
  Connection(int fd, const Limits& limits, const std::atomic<bool>& stopping, Activity& activity,
             TlsSession tls = {nullptr, SSL_free})
      : fd_(fd), limits_(limits), stopping_(stopping), activity_(activity), tls_(std::move(tls)) {}

  /// The TLS handshake, if there is TLS: false if the client shows no good certificate, or takes too long.
  bool secure();

  /// Waits for the next request and reads its head: nothing if the client is gone or has taken too long to begin.
  /// What the library reads from here on is the head's framing() and the body.
  std::optional<std::variant<Head, Refusal>> awaitRequest(bool first);
  /// Why its body could not be read, if that is the client's fault.
  std::optional<Refusal> bodyRefused() const;
  /// What is written from here on is the answer. A stream has no deadline as a whole.
  void beginAnswer(bool stream);
  /// Sends what is buffered; false if the client takes nothing or is gone.
  bool flush();
  /// Whether the peer closed or broke the connection.
  bool peerGone() const;
  /// Ends it so that the answer arrives: what the client still sends would turn the close into a reset. unread: it is
  /// probably still sending the request that was refused.
  void finish(bool unread);

  bool is_readable() const override;
  bool is_writable() const override { return !broken_; }
  ssize_t read(char* to, size_t size) override;
  ssize_t write(const char* from, size_t size) override;
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return fd_; }

 private:
  using Steady = std::chrono::steady_clock;
  enum class Waited { ready, late, stopped };
  Waited wait(short what, Steady::time_point until) const;
  /// More input; 0 or less: none will come.
  ssize_t fill(Steady::time_point until);
  bool sendAll(std::string_view bytes);
  /// After a TLS call that did not succeed: waits for what it needs. False: it can't go on.
  bool tlsMayGoOn(int result, Steady::time_point until);
  ssize_t receive(Steady::time_point until);
  bool sendSecured(std::string_view bytes);
  Steady::time_point sendUntil() const;

  const int fd_;
  const Limits& limits_;
  const std::atomic<bool>& stopping_;
  Activity& activity_;
  const TlsSession tls_;
  std::array<char, 16'384> in_;
  std::size_t begin_ = 0, end_ = 0;
  std::string framing_;  ///< read before in_
  std::size_t framed_ = 0;
  Steady::time_point requestUntil_;
  std::optional<Steady::time_point> answerUntil_;
  std::size_t bodyLeft_ = 0;  ///< bytes that the body may still take on the wire
  bool late_ = false, tooLong_ = false;
  std::string out_;
  bool broken_ = false;
};

}  // namespace egpu::http
