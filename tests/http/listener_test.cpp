// The listener over real loopback sockets. The tests write raw bytes, so that no library hides the framing.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "controller/http/http.h"

namespace egpu::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A stream of lines that the test pushes.
struct Feed {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::string pending;
  bool end = false;
  std::atomic<int> streams{0};
  void push(std::string text) {
    std::lock_guard lock(mutex);
    pending += text;
    changed.notify_all();
  }
  void finish() {
    std::lock_guard lock(mutex);
    end = true;
    changed.notify_all();
  }
};

class FeedStream final : public BodyStream {
 public:
  explicit FeedStream(Feed& feed) : feed_(feed) { ++feed_.streams; }
  ~FeedStream() override { --feed_.streams; }
  bool next(std::string& chunk, std::stop_token stop) override {
    std::unique_lock lock(feed_.mutex);
    feed_.changed.wait_for(lock, stop, std::chrono::milliseconds(200),
                           [&] { return feed_.end || !feed_.pending.empty(); });
    chunk += feed_.pending;
    feed_.pending.clear();
    return !feed_.end && !stop.stop_requested();
  }

 private:
  Feed& feed_;
};

class Echo final : public Handler {
 public:
  bool givesWay(const Request& request) const override { return request.path.starts_with("/yield"); }
  Response handle(const Request& request, std::stop_token stop) override {
    Response r;
    if (request.path == "/wait" || request.path == "/yield") {  // until the client is gone
      ++waiting;
      std::mutex mutex;
      std::condition_variable_any never;
      std::unique_lock lock(mutex);
      never.wait(lock, stop, [] { return false; });
      ++gaveUp;
      return r;
    }
    if (request.path == "/large") {
      r.body.assign(large, 'x');
      return r;
    }
    if (request.path == "/watch") {
      r.contentType = "application/json;stream=watch";
      r.stream = std::make_unique<FeedStream>(feed);
      return r;
    }
    if (request.path == "/throw") throw std::runtime_error("no");
    r.status = request.path == "/teapot" ? 418 : 200;
    r.contentType = "text/plain";
    r.headers.emplace_back("Warning", "one");
    r.headers.emplace_back("Warning", "two");
    r.body = request.method + " " + request.path + " ? " + request.query + " | " +
             std::string(request.header("x-test")) + " | " + request.body;
    return r;
  }
  Feed feed;
  std::atomic<int> waiting{0}, gaveUp{0};
  std::size_t large = 0;
};

class RawClient {
 public:
  explicit RawClient(const std::string& address) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval limit{20, 0};  // a hang fails the test instead of blocking it
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~RawClient() { close(); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  bool connected() const { return connected_; }
  void send(std::string_view text) {
    while (!text.empty()) {
      ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      text.remove_prefix(static_cast<size_t>(n));
    }
  }
  /// Reads until `mark` arrives. Returns the text up to and including it, or all text at the end of the connection.
  std::string until(const std::string& mark) {
    for (;;) {
      if (auto at = buffer_.find(mark); at != std::string::npos) {
        std::string out = buffer_.substr(0, at + mark.size());
        buffer_.erase(0, at + mark.size());
        return out;
      }
      char part[4096];
      ssize_t n = ::recv(fd_, part, sizeof part, 0);
      if (n <= 0) {
        atEnd = n == 0;
        return std::exchange(buffer_, {});
      }
      buffer_.append(part, static_cast<size_t>(n));
    }
  }
  /// Returns one answer with Content-Length: head and body.
  std::string answer() {
    std::string head = until("\r\n\r\n");
    auto at = head.find("Content-Length: ");
    if (at == std::string::npos) return head;
    size_t length = std::stoul(head.substr(at + 16));
    while (buffer_.size() < length) {
      char part[4096];
      ssize_t n = ::recv(fd_, part, sizeof part, 0);
      if (n <= 0) break;
      buffer_.append(part, static_cast<size_t>(n));
    }
    head += buffer_.substr(0, length);
    buffer_.erase(0, std::min(length, buffer_.size()));
    return head;
  }
  /// Returns the number of bytes until the end of the connection.
  std::size_t drain() {
    std::vector<char> part(1 << 20);
    std::size_t sum = std::exchange(buffer_, {}).size();
    for (ssize_t n; (n = ::recv(fd_, part.data(), part.size(), 0)) > 0;) sum += static_cast<std::size_t>(n);
    return sum;
  }
  bool atEnd = false;

 private:
  int fd_ = -1;
  bool connected_ = false;
  std::string buffer_;
};

class ListenerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = listen("127.0.0.1:0", echo);
    ASSERT_TRUE(made.ok()) << made.status().str();
    listener = std::move(*made);
  }
  Echo echo;
  std::unique_ptr<Listener> listener;
};

TEST_F(ListenerTest, GivesTheHandlerWhatWasSent) {
  RawClient c(listener->address());
  c.send("PATCH /a%2Fb/c?x=%20&y=1 HTTP/1.1\r\nHost: h\r\nX-Test: v\r\nContent-Length: 5\r\n\r\nhello");
  std::string a = c.answer();
  EXPECT_THAT(a, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(a, HasSubstr("PATCH /a%2Fb/c ? x=%20&y=1 | v | hello"));
  EXPECT_THAT(a, HasSubstr("Warning: one"));
  EXPECT_THAT(a, HasSubstr("Warning: two"));
}

TEST_F(ListenerTest, ReusesTheConnectionForManyRequests) {
  RawClient c(listener->address());
  for (int i = 0; i < 200; ++i) {
    c.send("GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_THAT(c.answer(), HasSubstr("GET /" + std::to_string(i) + " ?"));
  }
}

TEST_F(ListenerTest, DeleteNeedsNoBody) {
  RawClient c(listener->address());
  c.send("DELETE /x HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(c.answer(), HasSubstr("DELETE /x ?  |  | "));
}

TEST_F(ListenerTest, TakesChunkedBodies) {
  RawClient c(listener->address());
  c.send("POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_THAT(c.answer(), HasSubstr("| abcde"));
}

TEST_F(ListenerTest, HandlersErrorsAndStatusesComeThrough) {
  RawClient c(listener->address());
  c.send("GET /teapot HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(c.answer(), StartsWith("HTTP/1.1 418"));
  c.send("GET /throw HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(c.answer(), HasSubstr("\"reason\":\"InternalError\""));
}

TEST_F(ListenerTest, RefusesABodyThatIsTooLarge) {
  RawClient c(listener->address());
  const size_t size = 4 * 1024 * 1024;
  std::thread writer([&] {
    c.send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n");
    c.send(std::string(size, 'x'));
  });
  std::string a = c.answer();
  writer.join();
  EXPECT_THAT(a, StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(a, HasSubstr("\"kind\":\"Status\""));
}

TEST_F(ListenerTest, SurvivesJunk) {
  for (std::string junk :
       {std::string("\0\1\2\3\r\n\r\n", 8), std::string("GET\r\n\r\n"), std::string(100'000, 'a') + "\r\n\r\n",
        std::string("GET /x HTTP/1.1\r\nContent-Length: -5\r\n\r\n"), std::string("GET /x HTTP/9.9\r\n\r\n"),
        "GET /" + std::string(9000, 'p') + " HTTP/1.1\r\n\r\n",
        std::string("POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")}) {
    RawClient c(listener->address());
    c.send(junk);
    c.send("\r\n");
    ::testing::Test::RecordProperty("answer", c.until("\r\n\r\n").substr(0, 12));
  }
  RawClient c(listener->address());
  c.send("GET /fine HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(c.answer(), HasSubstr("GET /fine"));
}

TEST_F(ListenerTest, StreamsEachPieceAtOnceAndEnds) {
  RawClient c(listener->address());
  c.send("GET /watch HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n");
  std::string head = c.until("\r\n\r\n");  // before any event exists
  EXPECT_THAT(head, HasSubstr("Transfer-Encoding: chunked"));
  EXPECT_THAT(head, HasSubstr("application/json;stream=watch"));
  echo.feed.push("one\n");
  EXPECT_THAT(c.until("one\n"), HasSubstr("one\n"));
  echo.feed.push("two\n");
  EXPECT_THAT(c.until("two\n"), HasSubstr("two\n"));
  echo.feed.finish();
  EXPECT_THAT(c.until("0\r\n\r\n"), HasSubstr("0\r\n\r\n"));
}

TEST_F(ListenerTest, NoticesAClientThatWentAway) {
  {
    RawClient c(listener->address());
    c.send("GET /watch HTTP/1.1\r\nHost: h\r\n\r\n");
    c.until("\r\n\r\n");
    EXPECT_EQ(echo.feed.streams, 1);
  }
  while (echo.feed.streams != 0) std::this_thread::yield();  // the test's own timeout ends a failure
}

TEST_F(ListenerTest, ManyWatchesLeaveCapacityForRequests) {
  std::vector<std::unique_ptr<RawClient>> watches;
  for (int i = 0; i < 100; ++i) {
    watches.push_back(std::make_unique<RawClient>(listener->address()));
    watches.back()->send("GET /watch HTTP/1.1\r\nHost: h\r\n\r\n");
  }
  for (auto& w : watches) EXPECT_THAT(w->until("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  RawClient c(listener->address());
  c.send("GET /still HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(c.answer(), HasSubstr("GET /still"));
}

TEST_F(ListenerTest, StopEndsStreamsAndIdleConnections) {
  RawClient watch(listener->address()), idle(listener->address());
  watch.send("GET /watch HTTP/1.1\r\nHost: h\r\n\r\n");
  watch.until("\r\n\r\n");
  idle.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
  idle.answer();
  const std::string address = listener->address();
  listener->stop();
  listener->stop();
  watch.until("never");
  idle.until("never");
  EXPECT_TRUE(watch.atEnd);
  EXPECT_TRUE(idle.atEnd);
  EXPECT_EQ(echo.feed.streams, 0);
  EXPECT_FALSE(RawClient(address).connected());
}

TEST_F(ListenerTest, StopRightAfterStartDoesNotHang) {
  for (int i = 0; i < 20; ++i) {
    auto l = listen("127.0.0.1:0", echo);
    ASSERT_TRUE(l.ok());
    (*l)->stop();
  }
}

TEST_F(ListenerTest, ReportsWhyItCannotListen) {
  auto taken = listen(listener->address(), echo);
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.status().code(), base::Code::unavailable);
  EXPECT_FALSE(listen("nonsense", echo).ok());
  EXPECT_FALSE(listen("127.0.0.1:99999", echo).ok());
}

/// The limits of a listener on a network, short where a test waits for them.
class LimitsTest : public ::testing::Test {
 protected:
  void start() {
    auto made = listen("127.0.0.1:0", echo, limits);
    ASSERT_TRUE(made.ok()) << made.status().str();
    listener = std::move(*made);
  }
  std::unique_ptr<RawClient> connect() { return std::make_unique<RawClient>(listener->address()); }
  std::string ask(const std::string& request) {
    RawClient c(listener->address());
    c.send(request);
    return c.answer();
  }
  template <class Predicate>
  static void waitUntil(Predicate&& done) {  // the test's own timeout ends a failure
    while (!done()) std::this_thread::yield();
  }
  static constexpr const char* kFine = "GET /fine HTTP/1.1\r\nHost: h\r\n\r\n";
  Echo echo;
  Limits limits;
  std::unique_ptr<Listener> listener;
};

TEST_F(LimitsTest, TheIdlestConnectionGoesForANewOne) {
  limits.maxConnections = 4;
  start();
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 4; ++i) {
    idle.push_back(connect());
    idle.back()->send(kFine);
    EXPECT_THAT(idle.back()->answer(), HasSubstr("GET /fine"));
    // A connection counts as idle shortly after its answer.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_THAT(ask(kFine), HasSubstr("GET /fine"));
  idle[0]->until("never");
  EXPECT_TRUE(idle[0]->atEnd);
  idle[3]->send(kFine);
  EXPECT_THAT(idle[3]->answer(), HasSubstr("GET /fine"));
}

TEST_F(LimitsTest, AThousandIdleConnectionsBlockNobody) {
  limits.maxConnections = 64;
  start();
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 900; ++i) idle.push_back(connect());
  for (int i = 0; i < 10; ++i) EXPECT_THAT(ask(kFine), HasSubstr("GET /fine"));
}

TEST_F(LimitsTest, RequestsThatArriveSlowlyGoBeforeThoseBeingAnswered) {
  limits.maxConnections = 3;
  start();
  auto answered = connect(), slow = connect(), slower = connect();
  answered->send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
  waitUntil([&] { return echo.waiting == 1; });
  slow->send("GET /x HTT");
  slower->send("POST /x HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_THAT(ask(kFine), HasSubstr("GET /fine"));
  EXPECT_THAT(ask(kFine), HasSubstr("GET /fine"));
  EXPECT_EQ(echo.gaveUp, 0);
}

TEST_F(LimitsTest, RequestsThatNeverArriveBlockNobody) {
  limits.maxConnections = 64;
  start();
  std::deque<std::unique_ptr<RawClient>> slow;
  const auto more = [&](int n) {
    for (; n > 0; --n) {
      slow.push_back(connect());
      slow.back()->send("GET /fine HTTP/1.1\r\nX");
      if (slow.size() > limits.maxConnections) slow.pop_front();
    }
  };
  more(200);
  for (int i = 0; i < 20; ++i) {
    auto honest = connect();
    more(8);
    honest->send(kFine);
    ASSERT_THAT(honest->answer(), HasSubstr("GET /fine")) << i;
  }
}

TEST_F(LimitsTest, AConnectionThatIsNotUsedGoesBeforeARequestThatArrives) {
  limits.maxConnections = 2;
  start();
  auto arriving = connect(), unused = connect();
  arriving->send("GET /fine HTT");
  unused->send(kFine);
  EXPECT_THAT(unused->answer(), HasSubstr("GET /fine"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1'500));  // by then the connection counts as unused
  EXPECT_THAT(ask(kFine), HasSubstr("GET /fine"));
  unused->until("never");
  EXPECT_TRUE(unused->atEnd);
  arriving->send("P/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(arriving->answer(), HasSubstr("GET /fine"));
}

TEST_F(LimitsTest, WhereAllAreBeingAnsweredANewOneIsRefused) {
  limits.maxConnections = 2;
  start();
  auto a = connect(), b = connect();
  for (auto* each : {a.get(), b.get()}) each->send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
  waitUntil([&] { return echo.waiting == 2; });
  const auto refused = connect()->answer();
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(refused, HasSubstr("Retry-After"));
  EXPECT_THAT(refused, HasSubstr("\"kind\":\"Status\""));
  EXPECT_EQ(echo.gaveUp, 0);
}

TEST_F(LimitsTest, RequestsThatGiveWayBlockNobody) {
  limits.maxConnections = 4;
  start();
  std::vector<std::unique_ptr<RawClient>> many;
  for (int i = 0; i < 4; ++i) {
    many.push_back(connect());
    many.back()->send("GET /yield-now HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_THAT(many.back()->answer(), HasSubstr("GET /yield-now"));
  }
  for (std::size_t i = 4; i-- > 0;) {
    many[i]->send("GET /yield HTTP/1.1\r\nHost: h\r\n\r\n");
    waitUntil([&] { return echo.waiting == static_cast<int>(4 - i); });
  }
  auto others = connect();
  others->send(kFine);
  EXPECT_THAT(others->answer(), HasSubstr("GET /fine"));
  many[0]->until("never");  // the oldest connection, but not in this request
  EXPECT_TRUE(many[0]->atEnd);
  others.reset();  // one idle connection fewer to close
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  auto wait = connect();
  wait->send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
  waitUntil([&] { return echo.waiting == 5; });
  auto second = connect();
  second->send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
  waitUntil([&] { return echo.waiting == 6; });
  // They hold half of the connections and keep them.
  EXPECT_THAT(connect()->answer(), StartsWith("HTTP/1.1 503"));
  EXPECT_EQ(echo.gaveUp, 2);
}

TEST_F(LimitsTest, AFewRequestsThatGiveWayStayBeforeIdleConnections) {
  limits.maxConnections = 4;
  start();
  auto a = connect(), b = connect();
  for (auto* each : {a.get(), b.get()}) each->send("GET /yield HTTP/1.1\r\nHost: h\r\n\r\n");
  waitUntil([&] { return echo.waiting == 2; });
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 50; ++i) idle.push_back(connect());
  EXPECT_THAT(ask(kFine), HasSubstr("GET /fine"));
  EXPECT_EQ(echo.gaveUp, 0);
}

TEST_F(LimitsTest, WhatDoesNotGiveWayIsNotCutOff) {
  limits.maxConnections = 2;
  start();
  auto a = connect(), b = connect();
  for (auto* each : {a.get(), b.get()}) {
    each->send("GET /yield-now HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_THAT(each->answer(), HasSubstr("200"));
    each->send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
  }
  waitUntil([&] { return echo.waiting == 2; });
  EXPECT_THAT(connect()->answer(), StartsWith("HTTP/1.1 503"));
  EXPECT_EQ(echo.gaveUp, 0);
}

/// Ends the process, silently if all is well. Only users other than root can be denied threads.
class WithoutThreadsTest : public LimitsTest {
 protected:
  static void allowMore(bool threads) {
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NPROC, &limit), 0);
    limit.rlim_cur = threads ? limit.rlim_max : 1;
    ASSERT_EQ(::setrlimit(RLIMIT_NPROC, &limit), 0);
  }
  void serveAnyway() {
    if (::geteuid() == 0) {
      ASSERT_EQ(::setresuid(54'321, 54'321, 54'321), 0);
    }
    start();
    EXPECT_THAT(ask(kFine), HasSubstr("GET /fine"));  // one thread exists now
    allowMore(false);
    std::vector<std::unique_ptr<RawClient>> idle;
    for (int i = 0; i < 64; ++i) idle.push_back(connect());
    EXPECT_THAT(ask(kFine), HasSubstr("GET /fine"));  // an idle connection released it
    auto busy = connect();
    busy->send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    waitUntil([&] { return echo.waiting == 1; });
    EXPECT_THAT(connect()->answer(), StartsWith("HTTP/1.1 503"));
    EXPECT_EQ(echo.gaveUp, 0);
    allowMore(true);
    EXPECT_THAT(ask(kFine), HasSubstr("GET /fine"));
    busy.reset();
    listener->stop();
  }
};

TEST_F(WithoutThreadsTest, WhereNoThreadCanBeHadAnIdleConnectionGoesOrTheNewOneIsRefused) {
  EXPECT_EXIT(
      {
        serveAnyway();
        ::_exit(HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(LimitsTest, HeadersAreBounded) {
  start();
  std::string many = "GET /x HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 300; ++i) many += "a:\r\n";
  EXPECT_THAT(ask(many + "\r\n"), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(ask("GET /x HTTP/1.1\r\nLong: " + std::string(70'000, 'x') + "\r\n\r\n"), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(ask("GET /x HTTP/1.1\r\nLong: " + std::string(60'000, 'x') + "\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask("GET /" + std::string(9'000, 'x') + " HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 414"));
}

TEST_F(LimitsTest, BodiesAreBoundedHoweverTheyAreSent) {
  limits.maxBodyBytes = 1000;
  start();
  EXPECT_THAT(ask("POST /x HTTP/1.1\r\nContent-Length: 1000\r\n\r\n" + std::string(1000, 'x')),
              StartsWith("HTTP/1.1 200"));
  const auto refused = ask("POST /x HTTP/1.1\r\nContent-Length: 1001\r\n\r\n");  // before any byte of the body is sent
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(refused, HasSubstr("limit is 1000"));
  const std::string chunk = "200\r\n" + std::string(512, 'x') + "\r\n";
  EXPECT_THAT(ask("POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + chunk + "0\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
  std::string endless = "POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 100; ++i) endless += chunk;
  EXPECT_THAT(ask(endless), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(ask("POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(30'000, 'e')),
              StartsWith("HTTP/1.1 413"));
}

TEST_F(LimitsTest, CompressedBodiesRangesAndFormsAreNotInterpreted) {
  start();
  EXPECT_THAT(ask("POST /x HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx"),
              StartsWith("HTTP/1.1 415"));
  EXPECT_THAT(ask("GET /x HTTP/1.1\r\nRange: bytes=0-0,0-0,0-0\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  const std::string form(20'000, 'f');
  EXPECT_THAT(
      ask("POST /x HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 20000\r\n\r\n" +
          form),
      HasSubstr("| " + form));
}

TEST_F(LimitsTest, WhatFramesARequestTwiceIsRefused) {
  start();
  for (const char* head :
       {"Content-Length: 3\r\nTransfer-Encoding: chunked", "Content-Length: 3\r\nContent-Length: 4",
        "Transfer-Encoding: gzip, chunked", "Content-Length: +3", "Content Length: 3", " folded: x", "a\x01: b"})
    EXPECT_THAT(ask("POST /x HTTP/1.1\r\n" + std::string(head) + "\r\n\r\nabc"), StartsWith("HTTP/1.1 400")) << head;
}

TEST_F(LimitsTest, TheBodyOfAGetIsNoSecondRequest) {
  start();
  RawClient c(listener->address());
  c.send("GET /one HTTP/1.1\r\nContent-Length: 40\r\n\r\nGET /two HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(c.answer(), HasSubstr("GET /one"));
  EXPECT_EQ(c.until("never"), "");
}

TEST_F(LimitsTest, WhoAnswersNothingIsLetGo) {
  limits.firstByteTimeout = std::chrono::milliseconds(20);
  start();
  auto silent = connect();
  EXPECT_EQ(silent->until("never"), "");
  EXPECT_TRUE(silent->atEnd);
}

TEST_F(LimitsTest, ARequestThatDoesNotArriveIsAnsweredSo) {
  limits.requestTimeout = std::chrono::milliseconds(50);
  start();
  for (const char* part : {"GET /x HTTP/1.1\r\nHost", "POST /x HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc",
                           "POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"})
    EXPECT_THAT(ask(part), StartsWith("HTTP/1.1 408")) << part;
}

TEST_F(LimitsTest, DrippingBytesBuysNoTime) {
  limits.requestTimeout = std::chrono::milliseconds(50);
  start();
  RawClient c(listener->address());
  c.send("GET /x HTTP/1.1\r\n");
  std::jthread dripping([&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      c.send("a");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  EXPECT_THAT(c.until("\r\n"), StartsWith("HTTP/1.1 408"));
}

TEST_F(LimitsTest, WhoDoesNotTakeItsAnswerIsLetGo) {
  limits.readTimeout = std::chrono::milliseconds(50);
  limits.maxConnections = 1;
  echo.large = std::size_t{64} * 1024 * 1024;
  start();
  auto slow = connect();
  slow->send("GET /large HTTP/1.1\r\n\r\n");
  // Its connection is free again; until then other clients get 503.
  waitUntil([&] { return ask(kFine).find("GET /fine") != std::string::npos; });
}

TEST_F(LimitsTest, WhoTakesNoAnswersBlocksNobody) {
  limits.readTimeout = std::chrono::milliseconds(10'000);
  limits.maxConnections = 2;
  echo.large = std::size_t{64} * 1024 * 1024;
  start();
  auto a = connect(), b = connect();
  for (auto* each : {a.get(), b.get()}) each->send("GET /large HTTP/1.1\r\n\r\n");
  for (auto* each : {a.get(), b.get()}) EXPECT_THAT(each->until("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  std::this_thread::sleep_for(limits.readTimeout / 10);
  EXPECT_THAT(ask(kFine), HasSubstr("GET /fine"));
}

TEST_F(LimitsTest, SlowReadersDoNotPileUpAnswers) {
  echo.large = std::size_t{16} * 1024 * 1024;
  limits.maxUnreadBytes = std::size_t{40} * 1024 * 1024;
  start();
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 5; ++i) {
    slow.push_back(connect());
    slow.back()->send("GET /large HTTP/1.1\r\nConnection: close\r\n\r\n");
    slow.back()->until("\r\n\r\n");
  }
  EXPECT_LT(slow[0]->drain(), echo.large);  // closed in favour of the later ones
  EXPECT_EQ(slow[4]->drain(), echo.large);
}

TEST_F(LimitsTest, AHandlerLearnsThatItsCallerHasGone) {
  start();
  auto caller = connect();
  caller->send("GET /wait HTTP/1.1\r\n\r\n");
  waitUntil([&] { return echo.waiting == 1; });
  caller->close();
  waitUntil([&] { return echo.gaveUp == 1; });
}

TEST_F(LimitsTest, ACallerThatGoesAtOnceIsNoticed) {
  start();
  for (int i = 0; i < 50; ++i) {
    connect()->send("GET /wait HTTP/1.1\r\n\r\n");
    connect()->send("POST /wait HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
  }
  waitUntil([&] { return echo.gaveUp == 100; });
}

TEST_F(LimitsTest, StopEndsWhatHandlersWaitFor) {
  start();
  auto caller = connect();
  caller->send("GET /wait HTTP/1.1\r\n\r\n");
  waitUntil([&] { return echo.waiting == 1; });
  listener->stop();
  EXPECT_EQ(echo.gaveUp, 1);
  EXPECT_THAT(caller->answer(), StartsWith("HTTP/1.1 200"));
}

TEST_F(LimitsTest, WaitsWith100ContinueForNobody) {
  start();
  RawClient c(listener->address());
  c.send("POST /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_THAT(c.until("\r\n\r\n"), StartsWith("HTTP/1.1 100"));
  c.send("abc");
  EXPECT_THAT(c.answer(), HasSubstr("| abc"));
}

TEST_F(LimitsTest, ListensOnBothFamilies) {
  for (const char* address : {"[::]:0", ":0"}) {
    auto made = listen(address, echo, limits);
    ASSERT_TRUE(made.ok()) << made.status().str();
    listener = std::move(*made);
    EXPECT_THAT(ask(kFine), HasSubstr("GET /fine"));  // over IPv4
  }
}

TEST(Addresses, LoopbackIsKnown) {
  for (const char* address : {"127.0.0.1:1", "127.8.0.1:1", "localhost:1", "LOCALHOST:1", "LocalHost", "[::1]:1"})
    EXPECT_TRUE(isLoopback(address));
  for (const char* address :
       {"0.0.0.0:1", "[::]:1", ":1", "10.0.0.1:1", "127.evil.example:1", "localhost.example:1", "[::ffff:1.2.3.4]:1"})
    EXPECT_FALSE(isLoopback(address)) << address;
}

}  // namespace
}  // namespace egpu::http
