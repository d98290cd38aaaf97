// Proxies: the bytes that they see, and that neither their answers nor secrets get mixed up.
#include <gmock/gmock.h>

#include "tests/kube/transport/transport_fixture.h"

namespace egpu::kube {
namespace {

using base::Code;
using ::testing::HasSubstr;
using ::testing::Not;

class ProxyTest : public TransportFixture {
 protected:
  LocalServer::Handler hello = [](const SeenRequest& r) {
    return CannedAnswer{
        200, r.method + " " + r.target + " " + r.header("host") + " " + r.header("authorization"), {}, {}};
  };
  LocalServer server{hello, &forLoopback};
  Endpoint endpoint = [this] {
    Endpoint e;
    e.server = "https://api.example:" + std::to_string(server.port());
    e.caData = authority.pem();
    e.token = "tok";
    return e;
  }();
  const std::string host = "api.example:" + std::to_string(server.port());
};

TEST_F(ProxyTest, HttpsGoesThroughATunnelThatSeesNoSecret) {
  ForwardProxy proxy;
  endpoint.proxyUrl = "http://127.0.0.1:" + std::to_string(proxy.port());
  const auto answer = get(*connect(endpoint));
  ASSERT_TRUE(answer.ok()) << answer.status().str();
  EXPECT_EQ(answer->body, "GET /x " + host + " Bearer tok");
  EXPECT_EQ(answer->header("via"), "");  // the tunnel's head is not the server's
  ASSERT_EQ(proxy.seen().size(), 1U);
  EXPECT_EQ(proxy.seen()[0].rfind("CONNECT " + host + " HTTP/1.1\r\n", 0), 0U);
  EXPECT_THAT(proxy.seen()[0], Not(HasSubstr("tok")));
}

TEST_F(ProxyTest, PlainHttpGoesInAbsoluteForm) {
  LocalServer plain(hello);
  ForwardProxy proxy;
  endpoint.server = "http://api.example:" + std::to_string(plain.port());
  endpoint.proxyUrl = "http://127.0.0.1:" + std::to_string(proxy.port());
  const auto answer = get(*connect(endpoint));
  ASSERT_TRUE(answer.ok()) << answer.status().str();
  EXPECT_EQ(answer->body, "GET /x api.example:" + std::to_string(plain.port()) + " Bearer tok");
}

TEST_F(ProxyTest, Socks5ResolvesNamesAtTheProxy) {
  ForwardProxy proxy;
  endpoint.proxyUrl = "socks5h://127.0.0.1:" + std::to_string(proxy.port());
  const auto answer = get(*connect(endpoint));
  ASSERT_TRUE(answer.ok()) << answer.status().str();
  EXPECT_EQ(proxy.seen(), std::vector<std::string>{"SOCKS " + host});
}

TEST_F(ProxyTest, CredentialsInTheUrlAreForTheProxy) {
  ForwardProxy proxy("dTpw");
  endpoint.proxyUrl = "http://u:p@127.0.0.1:" + std::to_string(proxy.port());
  EXPECT_TRUE(get(*connect(endpoint)).ok());
  endpoint.proxyUrl = "http://127.0.0.1:" + std::to_string(proxy.port());
  const auto refused = send(*connect(endpoint), Method::patch, "/x", "{}");
  EXPECT_EQ(refused.status().code(), Code::unavailable) << refused.status().str();  // no byte reached the server
  EXPECT_THAT(refused.status().message(), HasSubstr("407"));
}

TEST_F(ProxyTest, TlsServerNameIsForTheServerNotForTheTunnel) {
  ForwardProxy proxy;
  endpoint.server = "https://127.0.0.2:" + std::to_string(server.port());
  endpoint.tlsServerName = "api.example";
  endpoint.proxyUrl = "http://127.0.0.1:" + std::to_string(proxy.port());
  const auto answer = get(*connect(endpoint));
  ASSERT_TRUE(answer.ok()) << answer.status().str();
  EXPECT_EQ(proxy.seen().at(0).rfind("CONNECT 127.0.0.2:" + std::to_string(server.port()) + " ", 0), 0U)
      << proxy.seen().at(0);
}

TEST_F(ProxyTest, AStreamBeginsWithTheServersHead) {
  std::atomic<int> lines{0};
  LocalServer streaming(
      [&](const SeenRequest&) {
        return CannedAnswer{200, "", {{"X-Head", "server"}}, [&](std::string& chunk) {
                              chunk = "line\n";
                              return ++lines < 3;
                            }};
      },
      &forLoopback);
  ForwardProxy proxy;
  endpoint.server = "https://api.example:" + std::to_string(streaming.port());
  endpoint.proxyUrl = "http://127.0.0.1:" + std::to_string(proxy.port());
  std::string all;
  HttpRequest request;
  request.target = "/w";
  const auto end = connect(endpoint)->stream(request,
                                             [&](std::string_view chunk) {
                                               all += chunk;
                                               return true;
                                             },
                                             {});
  ASSERT_TRUE(end.ok()) << end.status().str();
  EXPECT_EQ(end->header("x-head"), "server");
  EXPECT_EQ(all, "line\nline\nline\n");
}

TEST_F(ProxyTest, TheEnvironmentIsNotForTheTransportToRead) {
  ForwardProxy proxy;
  const std::string url = "http://127.0.0.1:" + std::to_string(proxy.port());
  ::setenv("https_proxy", url.c_str(), 1);
  ::setenv("no_proxy", "*", 1);
  Endpoint direct = endpoint;
  direct.server = server.url();
  EXPECT_TRUE(get(*connect(direct)).ok());
  EXPECT_TRUE(proxy.seen().empty());
  endpoint.proxyUrl = url;  // no_proxy does not override the endpoint either
  EXPECT_TRUE(get(*connect(endpoint)).ok());
  EXPECT_EQ(proxy.seen().size(), 1U);
  ::unsetenv("https_proxy");
  ::unsetenv("no_proxy");
}

}  // namespace
}  // namespace egpu::kube
