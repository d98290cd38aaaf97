// Connection of one client as a cpp-httplib stream, with a deadline for everything that the client has to do. Internal
// to http/.
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

/// State of a connection. The listener reads it to choose a connection to end. Thread-safe except for the members that
/// the listener's mutex guards.
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
  /// Start of `phase`, but the first request counts from the acceptance of the connection, and a connection that is
  /// about to close keeps the start of its last phase. Otherwise threads that run late on a busy machine would make
  /// such connections seem newer than later ones.
  std::atomic<Steady::rep> since{Steady::now().time_since_epoch().count()};
  // Guarded by the mutex of the listener's Connections, which these members cannot name in an annotation:
  uint64_t number = 0;      ///< unique, never used again
  std::stop_source stop;    ///< stops the request being answered
  std::size_t pending = 0;  ///< bytes of the answer that the client has not yet read
  bool givesWay = false;    ///< result of Handler::givesWay() for the last request
  bool gone = false;        ///< the client has closed the connection and does not wait for the answer
  bool ended = false;       ///< the socket is shut down and the thread is about to leave
};

/// Used by one thread. Input and output are buffered, so that the head and the body of an answer leave in one packet.
class Connection final : public httplib::Stream {
 public:
  /// tls: null = no TLS. With TLS the socket must be non-blocking, and the caller must call secure() first.
  Connection(int fd, const Limits& limits, const std::atomic<bool>& stopping, Activity& activity,
             TlsSession tls = {nullptr, SSL_free})
      : fd_(fd), limits_(limits), stopping_(stopping), activity_(activity), tls_(std::move(tls)) {}

  /// Performs the handshake if the connection uses TLS. Returns false if the client's certificate is not accepted or
  /// the client takes too long.
  bool secure();

  /// Waits for the next request and reads its head. Returns nullopt if the client is gone or did not begin in time.
  /// After this call, read() gives the library the head's framing() and then the body.
  std::optional<std::variant<Head, RequestRefusal>> awaitRequest(bool first);
  /// Returns why the body could not be read, if the client caused the failure.
  std::optional<RequestRefusal> bodyRefused() const;
  /// Starts the answer: everything written after this call belongs to it. A stream has no deadline as a whole.
  void beginAnswer(bool stream);
  /// Sends the buffered output. Returns false if the client reads nothing or is gone.
  bool flush();
  /// True if the peer closed or broke the connection.
  bool peerGone() const;
  /// Ends the connection so that the answer arrives. Drops remaining input, because the close would otherwise become a
  /// reset. unread: the client is probably still sending the refused request.
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
  /// Reads more input. Returns the number of bytes; 0 or less: no more input will come.
  ssize_t fill(Steady::time_point until);
  bool sendAll(std::string_view bytes);
  /// Waits until a TLS call that failed with `result` can be repeated. Returns false if it can't.
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
  std::string framing_;  ///< read() returns it before the content of in_
  std::size_t framed_ = 0;
  Steady::time_point requestUntil_;
  std::optional<Steady::time_point> answerUntil_;
  std::size_t bodyLeft_ = 0;  ///< bytes that the body may still have on the wire
  bool late_ = false, tooLong_ = false;
  std::string out_;
  bool broken_ = false;
};

}  // namespace egpu::http
