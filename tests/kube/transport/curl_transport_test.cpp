#include "controller/kube/transport/curl_transport.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/kube/transport/local_server.h"

namespace egpu::kube {
namespace {

using base::Code;
using std::chrono::milliseconds;

/// A gate that can be opened once.
class BlockedRequest {
 public:
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

class CurlTransportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = std::filesystem::path(::testing::TempDir()) /
             (std::string("transport-") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::unique_ptr<Transport> connect(const std::string& url, CurlOptions options = {}) {
    Endpoint endpoint;
    endpoint.server = url;
    return connect(endpoint, options);
  }
  std::unique_ptr<Transport> connect(const Endpoint& endpoint, CurlOptions options = {}) {
    auto made = curlTransport(endpoint, clock, options);
    EXPECT_TRUE(made.ok()) << made.status().str();
    return std::move(*made);
  }
  static HttpRequest request(Method method, std::string target, std::string body = {}) {
    HttpRequest r;
    r.method = method;
    r.target = std::move(target);
    r.body = std::move(body);
    r.headers = {{"Content-Type", "application/json"}, {"Accept", "application/json"}};
    return r;
  }
  static base::Result<HttpResponse> get(Transport& t, const std::string& target = "/x") {
    return t.perform(request(Method::get, target), {});
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  }
  std::filesystem::path folder;
  base::ManualClock clock;
};

TEST_F(CurlTransportTest, RefusesWhatIsNoUrl) {
  for (const char* server : {"", "https://", "ftp://h", "127.0.0.1:80"}) {
    Endpoint endpoint;
    endpoint.server = server;
    EXPECT_EQ(curlTransport(endpoint, clock).status().code(), Code::invalid) << server;
  }
}

TEST_F(CurlTransportTest, EveryMethodWithItsBodyHeadersAndAnswer) {
  LocalServer server([](const SeenRequest& r) {
    CannedAnswer a;
    a.status = r.method == "POST" ? 201 : 200;
    a.headers = {{"X-Back", "yes"}};
    a.body = r.method + " " + r.target + " " + r.header("content-type") + " " + r.body + r.header("expect");
    return a;
  });
  auto t = connect(server.url() + "/prefix/");
  const std::pair<Method, std::string> methods[] = {{Method::get, "GET"},
                                                    {Method::post, "POST"},
                                                    {Method::put, "PUT"},
                                                    {Method::patch, "PATCH"},
                                                    {Method::del, "DELETE"}};
  for (const auto& [method, name] : methods) {
    const std::string body = method == Method::get ? "" : "{\"n\":\"" + name + "\"}";
    const auto answer = t->perform(request(method, "/a%20b?x=1&y=%2F", body), {});
    ASSERT_TRUE(answer.ok()) << answer.status().str();
    EXPECT_EQ(answer->status, method == Method::post ? 201 : 200);
    EXPECT_EQ(answer->body, name + " /prefix/a%20b?x=1&y=%2F application/json " + body);
    EXPECT_EQ(answer->header("x-back"), "yes");
  }
  EXPECT_EQ(t->perform(request(Method::del, "/d"), {})->body, "DELETE /prefix/d application/json ");
}

TEST_F(CurlTransportTest, LargeBodiesBothWays) {
  LocalServer server([](const SeenRequest& r) { return CannedAnswer{200, r.body + r.body, {}, {}}; });
  auto t = connect(server.url());
  const std::string big(3'000'000, 'b');
  const auto answer = t->perform(request(Method::post, "/", big), {});
  ASSERT_TRUE(answer.ok()) << answer.status().str();
  EXPECT_EQ(answer->body.size(), 2 * big.size());
}

TEST_F(CurlTransportTest, ConnectionsAreReused) {
  LocalServer server([](const SeenRequest& r) { return CannedAnswer{200, std::to_string(r.remotePort), {}, {}}; });
  auto t = connect(server.url());
  std::set<std::string> connections;
  for (int i = 0; i < 20; ++i) connections.insert(get(*t)->body);
  EXPECT_EQ(connections.size(), 1U);
}

TEST_F(CurlTransportTest, RedirectsAreAnswersNotOrders) {
  std::atomic<int> seen{0};
  LocalServer server([&](const SeenRequest&) {
    ++seen;
    return CannedAnswer{302, "", {{"Location", "/elsewhere"}}, {}};
  });
  auto t = connect(server.url());
  EXPECT_EQ(get(*t)->status, 302);
  EXPECT_EQ(seen, 1);
}

TEST_F(CurlTransportTest, OversizedAnswerIsRefused) {
  LocalServer server([](const SeenRequest&) { return CannedAnswer{200, std::string(100'000, 'x'), {}, {}}; });
  CurlOptions options;
  options.maxBody = 50'000;
  auto t = connect(server.url(), options);
  EXPECT_EQ(get(*t).status().code(), Code::malformed);
  EXPECT_EQ(t->perform(request(Method::patch, "/", "{}"), {}).status().code(), Code::malformed);
}

TEST_F(CurlTransportTest, RefusedConnectionSentNothing) {
  auto t = connect("http://127.0.0.1:" + std::to_string(freePort()));
  EXPECT_EQ(t->perform(request(Method::post, "/", "{}"), {}).status().code(), Code::unavailable);
  EXPECT_EQ(t->stream(request(Method::get, "/"), [](std::string_view) { return true; }, {}).status().code(),
            Code::unavailable);
}

TEST_F(CurlTransportTest, ConnectionLostAfterSendingLeavesTheOutcomeUnknown) {
  RawServer server([](int s) { (void)readRequest(s); });  // reads the request and closes without an answer
  auto t = connect(server.url());
  EXPECT_EQ(t->perform(request(Method::patch, "/", "{}"), {}).status().code(), Code::unknownOutcome);
  EXPECT_EQ(get(*t).status().code(), Code::unknownOutcome);
}

TEST_F(CurlTransportTest, AnswerCutShortLeavesTheOutcomeUnknown) {
  RawServer server([](int s) {
    (void)readRequest(s);
    writeAll(s, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"half\":");
  });
  auto t = connect(server.url());
  EXPECT_EQ(t->perform(request(Method::post, "/", "{}"), {}).status().code(), Code::unknownOutcome);
}

TEST_F(CurlTransportTest, WriteOnAReusedConnectionThatDiesIsNeverSentTwice) {
  for (const Method method : {Method::patch, Method::post, Method::del}) {
    for (const std::string& body : {std::string("{}"), std::string()}) {
      std::atomic<int> writes{0};
      RawServer server([&](int s) {
        if (readRequest(s).empty()) return;
        writeAll(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        if (!readRequest(s).empty()) ++writes;  // the write may be applied; then the server dies
      });
      auto t = connect(server.url());
      ASSERT_TRUE(get(*t).ok());
      EXPECT_EQ(t->perform(request(method, "/", body), {}).status().code(), Code::unknownOutcome);
      EXPECT_EQ(writes, 1);
    }
  }
}

TEST_F(CurlTransportTest, ReadOnAReusedConnectionThatDiesIsSentAgain) {
  std::atomic<int> connections{0};
  RawServer server([&](int s) {
    const bool first = ++connections == 1;
    for (int i = 0; first ? i < 1 : true; ++i) {
      if (readRequest(s).empty()) return;
      writeAll(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
    }
    (void)readRequest(s);
  });
  auto t = connect(server.url());
  EXPECT_TRUE(get(*t).ok());
  EXPECT_TRUE(get(*t).ok());
  EXPECT_EQ(connections, 2);
}

TEST_F(CurlTransportTest, SilenceRunsIntoTheDeadline) {
  RawServer server([](int s) {
    while (!readRequest(s).empty()) {
    }
  });
  auto t = connect(server.url());
  auto r = request(Method::patch, "/", "{}");
  r.timeout = milliseconds(50);
  EXPECT_EQ(t->perform(r, {}).status().code(), Code::deadline);
}

TEST_F(CurlTransportTest, NoConnectionWithinTheTimeMeansNothingSent) {
  RawServer server([](int s) { (void)readRequest(s); });  // no TLS: the handshake never ends
  auto t = connect("https://127.0.0.1:" + std::to_string(server.port()));
  auto r = request(Method::patch, "/", "{}");
  r.timeout = milliseconds(50);
  EXPECT_EQ(t->perform(r, {}).status().code(), Code::unavailable);
  CurlOptions hasty;
  hasty.connectTimeout = milliseconds(50);  // libcurl's own limit has the same effect
  r.timeout = milliseconds(60'000);
  EXPECT_EQ(connect("https://127.0.0.1:" + std::to_string(server.port()), hasty)->perform(r, {}).status().code(),
            Code::unavailable);
}

TEST_F(CurlTransportTest, StopEndsAHangingCall) {
  BlockedRequest arrived;
  RawServer server([&](int s) {
    (void)readRequest(s);
    arrived.open();
    (void)readRequest(s);
  });
  auto t = connect(server.url());
  std::jthread caller([&](std::stop_token stop) {
    EXPECT_EQ(t->perform(request(Method::patch, "/", "{}"), stop).status().code(), Code::cancelled);
  });
  arrived.wait();
  caller.request_stop();
  caller.join();
}

TEST_F(CurlTransportTest, StreamDeliversChunksAndItsEnd) {
  std::atomic<int> n{0};
  LocalServer server([&](const SeenRequest&) {
    return CannedAnswer{200, "", {{"X-Head", "h"}}, [&](std::string& chunk) {
                          chunk = "line" + std::to_string(n++) + "\n";
                          return n < 100;
                        }};
  });
  auto t = connect(server.url());
  std::string all;
  const auto end = t->stream(request(Method::get, "/w?watch=true"),
                             [&](std::string_view c) {
                               all += c;
                               return true;
                             },
                             {});
  ASSERT_TRUE(end.ok()) << end.status().str();
  EXPECT_EQ(end->status, 200);
  EXPECT_EQ(end->body, "");
  EXPECT_EQ(end->header("x-head"), "h");
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 100);
}

TEST_F(CurlTransportTest, StreamRefusedIsReturnedWhole) {
  LocalServer server([](const SeenRequest&) { return CannedAnswer{410, "{\"code\":410}", {}, {}}; });
  auto t = connect(server.url());
  const auto end = t->stream(request(Method::get, "/"),
                             [](std::string_view) {
                               ADD_FAILURE() << "an error's body is no stream";
                               return true;
                             },
                             {});
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->status, 410);
  EXPECT_EQ(end->body, "{\"code\":410}");
}

TEST_F(CurlTransportTest, StreamCutShortIsNoCleanEnd) {
  RawServer server([](int s) {
    (void)readRequest(s);
    writeAll(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nline\n\r\n");
  });
  auto t = connect(server.url());
  std::string all;
  const auto end = t->stream(request(Method::get, "/"),
                             [&](std::string_view c) {
                               all += c;
                               return true;
                             },
                             {});
  EXPECT_EQ(end.status().code(), Code::unknownOutcome);
  EXPECT_EQ(all, "line\n");  // complete lines were delivered
}

/// A server whose streams send one line and then stay silent until the test ends.
class SilentStreams {
 public:
  CannedAnswer answer() {
    return CannedAnswer{200, "", {}, [this, sent = false](std::string& chunk) mutable {
                          if (!sent) {
                            sent = true;
                            chunk = "hello\n";
                            return true;
                          }
                          end.wait();
                          return false;
                        }};
  }
  BlockedRequest end;
};

TEST_F(CurlTransportTest, StreamEndsByReaderByStopAndByIdleTime) {
  SilentStreams silent;
  LocalServer server([&](const SeenRequest&) { return silent.answer(); });
  auto t = connect(server.url());
  const auto byReader = t->stream(request(Method::get, "/"), [](std::string_view) { return false; }, {});
  EXPECT_TRUE(byReader.ok());
  std::stop_source stop;
  const auto byStop = t->stream(
      request(Method::get, "/"),
      [&](std::string_view) {
        stop.request_stop();
        return true;
      },
      stop.get_token());
  EXPECT_EQ(byStop.status().code(), Code::cancelled);
  auto idle = request(Method::get, "/");
  idle.timeout = milliseconds(50);
  idle.headTimeout = milliseconds(60'000);
  EXPECT_EQ(t->stream(idle, [](std::string_view) { return true; }, {}).status().code(), Code::deadline);
  silent.end.open();
}

TEST_F(CurlTransportTest, StreamWithoutAHeadRunsIntoItsOwnLimit) {
  RawServer server([](int s) {
    while (!readRequest(s).empty()) {
    }
  });
  auto t = connect(server.url());
  auto r = request(Method::get, "/");
  r.timeout = milliseconds(3'600'000);
  r.headTimeout = milliseconds(50);
  EXPECT_EQ(t->stream(r, [](std::string_view) { return true; }, {}).status().code(), Code::deadline);
}

TEST_F(CurlTransportTest, OpenStreamsDontHoldUpWrites) {
  SilentStreams silent;
  LocalServer server([&](const SeenRequest& r) {
    return r.method == "GET" ? silent.answer() : CannedAnswer{200, "{}", {}, {}};
  });
  auto t = connect(server.url());
  std::atomic<int> open{0};
  std::vector<std::jthread> watches;
  for (int i = 0; i < 40; ++i)
    watches.emplace_back([&](std::stop_token stop) {
      (void)t->stream(
          request(Method::get, "/"),
          [&](std::string_view) {
            ++open;
            open.notify_all();
            return true;
          },
          stop);
    });
  for (int n = open; n < 40; n = open) open.wait(n);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(t->perform(request(Method::patch, "/", "{}"), {}).ok());
  watches.clear();
  silent.end.open();
}

TEST_F(CurlTransportTest, CredentialsAndImpersonationGoAlong) {
  LocalServer server([](const SeenRequest& r) {
    return CannedAnswer{200,
                        r.header("authorization") + "|" + r.header("impersonate-user") + "|" +
                            r.header("impersonate-group") + "|" + r.header("impersonate-extra-k") + "|" +
                            r.header("impersonate-extra-a.io%2fb"),
                        {},
                        {}};
  });
  Endpoint endpoint;
  endpoint.server = server.url();
  endpoint.token = "tok";
  endpoint.impersonateUser = "jane\r\nX-Smuggled: 1";
  endpoint.impersonateGroups = {"a", "b"};
  endpoint.impersonateExtra = {{"k", "v"}, {"a.io/b", "w"}};
  EXPECT_EQ(get(*connect(endpoint))->body, "Bearer tok|janeX-Smuggled: 1|a,b|v|w");
  Endpoint basic;
  basic.server = server.url();
  basic.username = "u";
  basic.password = "p";
  EXPECT_EQ(get(*connect(basic))->body, "Basic dTpw||||");
}

TEST_F(CurlTransportTest, RefusedTokenIsReadAgainOnce) {
  std::atomic<int> seen{0};
  LocalServer server([&](const SeenRequest& r) {
    ++seen;
    return r.header("authorization") == "Bearer new" ? CannedAnswer{200, "in", {}, {}} : CannedAnswer{401, "", {}, {}};
  });
  Endpoint endpoint;
  endpoint.server = server.url();
  endpoint.tokenFile = write("token", "old");
  auto t = connect(endpoint);
  EXPECT_EQ(get(*t)->status, 401);
  EXPECT_EQ(seen, 1);
  write("token", "new");
  EXPECT_EQ(get(*t)->body, "in");
  EXPECT_EQ(seen, 3);
}

class CurlTlsTest : public CurlTransportTest {
 protected:
  static LocalServer::Handler hello() {
    return [](const SeenRequest& r) { return CannedAnswer{200, r.header("host"), {}, {}}; };
  }
  Authority authority;
  const Certificate forLoopback = authority.issue("server", "IP:127.0.0.1");
};

TEST_F(CurlTlsTest, TrustsTheGivenAuthorityAsDataOrFileAndNoOther) {
  LocalServer server(hello(), &forLoopback);
  Endpoint endpoint;
  endpoint.server = server.url();
  // The system's bundle doesn't contain the authority.
  EXPECT_EQ(get(*connect(endpoint)).status().code(), Code::unavailable);
  endpoint.caData = authority.pem();
  EXPECT_TRUE(get(*connect(endpoint)).ok()) << get(*connect(endpoint)).status().str();
  endpoint.caData.clear();
  endpoint.caFile = write("ca.crt", authority.pem());
  EXPECT_TRUE(get(*connect(endpoint)).ok());
  endpoint.caData = Authority().pem();
  EXPECT_EQ(get(*connect(endpoint)).status().code(), Code::unavailable);
  endpoint.caData.clear();
  endpoint.caFile = (folder / "missing").string();
  EXPECT_EQ(get(*connect(endpoint)).status().code(), Code::unavailable);
  endpoint.caFile.clear();
  endpoint.insecureSkipTlsVerify = true;
  EXPECT_TRUE(get(*connect(endpoint)).ok());
}

TEST_F(CurlTlsTest, NameMustMatchAndCanBeGiven) {
  const Certificate named = authority.issue("server", "DNS:api.example");
  LocalServer server(hello(), &named);
  Endpoint endpoint;
  endpoint.server = server.url();
  endpoint.caData = authority.pem();
  EXPECT_EQ(get(*connect(endpoint)).status().code(), Code::unavailable);
  endpoint.tlsServerName = "api.example";
  const auto answer = get(*connect(endpoint));
  ASSERT_TRUE(answer.ok()) << answer.status().str();
  EXPECT_EQ(answer->body, "127.0.0.1:" + std::to_string(server.port()));  // the host that the request is really sent to
  endpoint.tlsServerName = "other.example";
  EXPECT_EQ(get(*connect(endpoint)).status().code(), Code::unavailable);
}

TEST_F(CurlTlsTest, ClientCertificateAsDataOrFile) {
  LocalServer server(hello(), &forLoopback, authority.pem());
  const Certificate client = authority.issue("admin", "");
  Endpoint endpoint;
  endpoint.server = server.url();
  endpoint.caData = authority.pem();
  EXPECT_FALSE(get(*connect(endpoint)).ok());
  endpoint.clientCertificateData = client.certificate;
  endpoint.clientKeyData = client.key;
  EXPECT_TRUE(get(*connect(endpoint)).ok()) << get(*connect(endpoint)).status().str();
  endpoint.clientCertificateData.clear();
  endpoint.clientKeyData.clear();
  endpoint.clientCertificateFile = write("c.crt", client.certificate);
  endpoint.clientKeyFile = write("c.key", client.key);
  EXPECT_TRUE(get(*connect(endpoint)).ok());
}

class CurlHttp2Test : public CurlTlsTest {
 protected:
  void SetUp() override {
    CurlTlsTest::SetUp();
    if (!Http2Proxy::available()) GTEST_SKIP() << "nghttpx isn't installed (package nghttp2-proxy): HTTP/2 not tested";
  }
};

// A stream whose reader sleeps shares its connection with hundreds of writes, which must all succeed.
TEST_F(CurlHttp2Test, WritesAreMultiplexedBesideAPausedStream) {
  std::atomic<int> chunks{0};
  LocalServer server([&](const SeenRequest& r) {
    if (r.method != "GET") return CannedAnswer{200, r.header("via"), {}, {}};
    return CannedAnswer{200, "", {}, [&](std::string& chunk) {
                          chunk = std::string(65'535, 'x') + "\n";
                          return ++chunks < 64;
                        }};
  });
  Http2Proxy proxy(server.port(), forLoopback, folder.string());
  // In front of the proxy, so that connections can be counted.
  RawServer front([&](int s) {
    const int back = dial(proxy.port());
    if (back < 0) return;
    pump(s, back);
    ::shutdown(back, SHUT_RDWR);
    ::close(back);
  });
  Endpoint endpoint;
  endpoint.server = "https://127.0.0.1:" + std::to_string(front.port());
  endpoint.caData = authority.pem();
  CurlOptions options;
  options.streamBuffer = 64 * 1024;
  auto t = connect(endpoint, options);

  BlockedRequest begun, goOn;
  std::size_t received = 0;
  std::jthread watch([&] {
    const auto end = t->stream(request(Method::get, "/w"),
                               [&](std::string_view c) {
                                 received += c.size();
                                 begun.open();
                                 goOn.wait();
                                 return true;
                               },
                               {});
    EXPECT_TRUE(end.ok()) << end.status().str();
  });
  begun.wait();
  std::atomic<int> good{0};
  {
    std::vector<std::jthread> writers;
    for (int w = 0; w < 16; ++w)
      writers.emplace_back([&] {
        for (int i = 0; i < 25; ++i) {
          const auto answer = t->perform(request(Method::patch, "/p", "{}"), {});
          EXPECT_TRUE(answer.ok()) << answer.status().str();
          if (answer.ok() && answer->body.find("2 nghttpx") != std::string::npos) ++good;
        }
      });
  }
  EXPECT_EQ(good, 400);
  EXPECT_EQ(front.connections(), 1);
  goOn.open();
  watch.join();
  EXPECT_EQ(received, 64U * 65'536U);
}

TEST_F(CurlHttp2Test, Http1WhereHttp2IsNotWanted) {
  LocalServer server([](const SeenRequest& r) { return CannedAnswer{200, r.header("via"), {}, {}}; });
  Http2Proxy proxy(server.port(), forLoopback, folder.string());
  Endpoint endpoint;
  endpoint.server = "https://127.0.0.1:" + std::to_string(proxy.port());
  endpoint.caData = authority.pem();
  CurlOptions options;
  options.http2 = false;
  EXPECT_NE(get(*connect(endpoint, options))->body.find("1.1 nghttpx"), std::string::npos);
}

}  // namespace
}  // namespace egpu::kube
