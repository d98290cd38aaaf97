#include "controller/http/connection.h"

#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace egpu::http {
namespace {

constexpr std::size_t kFlushAt = std::size_t{64} * 1024;
constexpr std::size_t kChunkFraming = 8;  // a chunk of one byte has 6 bytes on the wire; the rest is a margin
constexpr std::chrono::milliseconds kLinger{2'000};
constexpr std::size_t kLingerBytes = std::size_t{16} * 1024 * 1024;

}  // namespace

Connection::Waited Connection::wait(short what, Steady::time_point until) const {
  for (;;) {
    if (stopping_.load() && what == POLLIN) return Waited::stopped;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Steady::now()).count();
    if (left <= 0) return Waited::late;
    pollfd p{fd_, what, 0};
    const int n = ::poll(&p, 1, static_cast<int>(std::min<int64_t>(left, 3'600'000)));
    if (n > 0) return Waited::ready;
    if (n < 0 && errno != EINTR) return Waited::stopped;
  }
}

bool Connection::tlsMayGoOn(int result, Steady::time_point until) {
  const int why = SSL_get_error(tls_.get(), result);
  if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) {
    if (why != SSL_ERROR_ZERO_RETURN) broken_ = true;
    return false;
  }
  const Waited waited = wait(why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, until);
  if (waited == Waited::late) late_ = true;
  return waited == Waited::ready;
}

bool Connection::secure() {
  if (!tls_) return true;
  if (SSL_set_fd(tls_.get(), fd_) != 1) return false;
  const auto until = Steady::now() + limits_.firstByteTimeout;
  for (;;) {
    ERR_clear_error();
    const int n = SSL_accept(tls_.get());
    if (n == 1) return true;
    if (!tlsMayGoOn(n, until)) {
      broken_ = true;
      return false;
    }
  }
}

ssize_t Connection::receive(Steady::time_point until) {
  if (tls_) {
    for (;;) {
      ERR_clear_error();
      const int n = SSL_read(tls_.get(), in_.data(), static_cast<int>(in_.size()));
      if (n > 0) return n;
      if (stopping_.load() || !tlsMayGoOn(n, until)) return -1;
    }
  }
  const Waited waited = wait(POLLIN, until);
  if (waited == Waited::late) late_ = true;
  if (waited != Waited::ready) return -1;
  ssize_t n;
  do n = ::recv(fd_, in_.data(), in_.size(), 0);
  while (n < 0 && errno == EINTR);
  return n;
}

ssize_t Connection::fill(Steady::time_point until) {
  if (!out_.empty() && !flush()) return -1;  // may hold "100 Continue", for which the client waits
  const ssize_t n = receive(until);
  begin_ = 0;
  end_ = n > 0 ? static_cast<std::size_t>(n) : 0;
  return n;
}

std::optional<std::variant<Head, RequestRefusal>> Connection::awaitRequest(bool first) {
  late_ = tooLong_ = false;
  answerUntil_.reset();
  if (!first) activity_.enter(Activity::Phase::idle);
  if (begin_ == end_ && fill(Steady::now() + (first ? limits_.firstByteTimeout : limits_.idleTimeout)) <= 0)
    return std::nullopt;
  if (first) {
    activity_.phase = Activity::Phase::reading;  // keeps `since`, the time of acceptance: its thread may be late
  } else {
    activity_.enter(Activity::Phase::reading);
  }
  requestUntil_ = Steady::now() + limits_.requestTimeout;
  std::string text;
  std::size_t searched = 0, skipped = 0;
  for (;;) {
    const std::size_t before = text.size();
    text.append(in_.data() + begin_, end_ - begin_);
    // Skip empty lines before a request.
    if (before == 0)
      while (text.starts_with("\r\n")) {
        text.erase(0, 2);
        begin_ += 2;
        skipped += 2;
      }
    const std::size_t mark = text.find("\r\n\r\n", searched);
    if (mark != std::string::npos && mark + 4 <= limits_.maxHeadBytes) {
      begin_ = end_ - (text.size() - mark - 4);
      text.resize(mark + 4);
      break;
    }
    if (text.size() + skipped > limits_.maxHeadBytes)
      return RequestRefusal{
          431, "RequestHeaderFieldsTooLarge",
          "request line and headers have more than " + std::to_string(limits_.maxHeadBytes) + " bytes"};
    searched = text.size() < 3 ? 0 : text.size() - 3;
    begin_ = end_;
    if (fill(requestUntil_) <= 0) {
      if (!late_) return std::nullopt;
      return RequestRefusal{408, "Timeout", "the request did not arrive in time"};
    }
  }
  auto parsed = parseHead(text, limits_);
  if (const auto* head = std::get_if<Head>(&parsed)) {
    framing_ = head->framing();
    framed_ = 0;
    bodyLeft_ = head->chunked ? kChunkFraming * (limits_.maxBodyBytes + 1024) : head->length;
  }
  return parsed;
}

void Connection::beginAnswer(bool stream) {
  if (stream) return;
  answerUntil_ = Steady::now() + limits_.answerTimeout;
  activity_.enter(Activity::Phase::writing);
}

std::optional<RequestRefusal> Connection::bodyRefused() const {
  if (late_) return RequestRefusal{408, "Timeout", "the request did not arrive in time"};
  if (tooLong_)
    return RequestRefusal{413, "RequestEntityTooLarge",
                          "Request entity too large: limit is " + std::to_string(limits_.maxBodyBytes)};
  return std::nullopt;
}

bool Connection::is_readable() const { return framed_ < framing_.size() || begin_ < end_ || !peerGone(); }

ssize_t Connection::read(char* to, size_t size) {
  if (framed_ < framing_.size()) {
    const std::size_t n = framing_.copy(to, size, framed_);
    framed_ += n;
    return static_cast<ssize_t>(n);
  }
  if (bodyLeft_ == 0) {
    tooLong_ = true;
    return -1;
  }
  if (begin_ == end_)
    if (const ssize_t n = fill(requestUntil_); n <= 0) return n;
  const std::size_t n = std::min({size, end_ - begin_, bodyLeft_});
  std::memcpy(to, in_.data() + begin_, n);
  begin_ += n;
  bodyLeft_ -= n;
  return static_cast<ssize_t>(n);
}

ssize_t Connection::write(const char* from, size_t size) {
  if (broken_) return -1;
  if (out_.size() + size < kFlushAt) {
    out_.append(from, size);
    return static_cast<ssize_t>(size);
  }
  if (!flush() || !sendAll({from, size})) {
    broken_ = true;
    return -1;
  }
  return static_cast<ssize_t>(size);
}

bool Connection::flush() {
  const bool good = sendAll(out_);
  out_.clear();
  if (!good) broken_ = true;
  return good;
}

Connection::Steady::time_point Connection::sendUntil() const {
  const auto until = Steady::now() + limits_.readTimeout;
  return answerUntil_ ? std::min(until, *answerUntil_) : until;
}

bool Connection::sendSecured(std::string_view bytes) {
  constexpr std::size_t kMax = std::size_t{1} << 20;  // fits into an int, and is larger than a TLS record
  while (!bytes.empty()) {
    ERR_clear_error();
    const int n = SSL_write(tls_.get(), bytes.data(), static_cast<int>(std::min(bytes.size(), kMax)));
    if (n > 0)
      bytes.remove_prefix(static_cast<std::size_t>(n));
    else if (!tlsMayGoOn(n, sendUntil()))
      return false;
  }
  return true;
}

bool Connection::sendAll(std::string_view bytes) {
  if (broken_) return false;
  if (tls_) return sendSecured(bytes);
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return false;
    if (wait(POLLOUT, sendUntil()) != Waited::ready) return false;
  }
  return true;
}

bool Connection::peerGone() const {
  char c;
  const ssize_t n = ::recv(fd_, &c, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

void Connection::finish(bool unread) {
  flush();
  activity_.phase = Activity::Phase::idle;         // keeps `since`, so that it is ended before newer connections
  if (tls_ && !broken_) SSL_shutdown(tls_.get());  // sends close_notify; the client's is not awaited
  ERR_clear_error();
  ::shutdown(fd_, SHUT_WR);
  const auto until = Steady::now() + kLinger;
  std::size_t dropped = 0;
  for (;;) {
    const ssize_t n = ::recv(fd_, in_.data(), in_.size(), MSG_DONTWAIT);
    if (n > 0) dropped += static_cast<std::size_t>(n);
    if (n == 0 || dropped > kLingerBytes) return;
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    if (!unread || (errno != EAGAIN && errno != EWOULDBLOCK) || wait(POLLIN, until) != Waited::ready) return;
  }
}

}  // namespace egpu::http
