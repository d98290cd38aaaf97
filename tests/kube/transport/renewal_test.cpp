// Authorities, certificates and tokens that change at run time.
#include <gmock/gmock.h>

#include <atomic>
#include <set>

#include "tests/kube/config/plugin_script.h"
#include "tests/kube/transport/transport_fixture.h"

namespace egpu::kube {
namespace {

using base::Code;
using std::chrono::seconds;
using ::testing::HasSubstr;

class RenewalTest : public TransportFixture {
 protected:
  static LocalServer::Handler port() {
    return [](const SeenRequest& r) { return CannedAnswer{200, std::to_string(r.remotePort), {}, {}}; };
  }
  Authority other;
};

TEST_F(RenewalTest, ANewAuthorityIsTrustedAndTheOldOneNoMore) {
  const Certificate byOther = other.issue("server", "IP:127.0.0.1");
  LocalServer first(port(), &forLoopback), second(port(), &byOther);
  // One address that forwards to either of the two servers.
  std::atomic<int> behind{first.port()};
  RawServer front([&](int s) {
    const int back = dial(behind);
    if (back < 0) return;
    pump(s, back);
    ::close(back);
  });
  Endpoint endpoint;
  endpoint.server = "https://127.0.0.1:" + std::to_string(front.port());
  endpoint.caFile = write("ca.crt", authority.pem());
  auto t = connect(endpoint);
  ASSERT_TRUE(get(*t).ok()) << get(*t).status().str();

  // A proper rotation: both are trusted for a time.
  write("ca.crt", authority.pem() + other.pem());
  clock.advance(seconds(60));
  ASSERT_TRUE(get(*t).ok());
  EXPECT_EQ(front.connections(), 2);  // connections made under the old trust are not reused
  behind = second.port();
  write("ca.crt", other.pem());
  clock.advance(seconds(60));
  EXPECT_TRUE(get(*t).ok()) << get(*t).status().str();
  EXPECT_EQ(front.connections(), 3);
  behind = first.port();
  write("ca.crt", other.pem() + "\n");
  clock.advance(seconds(60));
  EXPECT_EQ(get(*t).status().code(), Code::unavailable);
}

TEST_F(RenewalTest, AFailedHandshakeHasTheAuthoritiesReadAtOnce) {
  LocalServer server(port(), &forLoopback);
  Endpoint endpoint;
  endpoint.server = server.url();
  endpoint.caFile = write("ca.crt", other.pem());
  auto t = connect(endpoint);
  EXPECT_EQ(get(*t).status().code(), Code::unavailable);
  write("ca.crt", authority.pem());
  EXPECT_TRUE(get(*t).ok());  // the clock stands still
}

TEST_F(RenewalTest, UnchangedFilesReuseTheConnection) {
  LocalServer server(port(), &forLoopback);
  Endpoint endpoint;
  endpoint.server = server.url();
  endpoint.caFile = write("ca.crt", authority.pem());
  auto t = connect(endpoint);
  std::set<std::string> connections;
  for (int i = 0; i < 5; ++i) {
    write("ca.crt", authority.pem());  // rewritten with equal contents
    clock.advance(seconds(60));
    connections.insert(get(*t)->body);
  }
  EXPECT_EQ(connections.size(), 1U);
}

TEST_F(RenewalTest, ANewClientCertificateMakesANewConnection) {
  LocalServer server(port(), &forLoopback, authority.pem());
  const Certificate mine = authority.issue("me", ""), next = authority.issue("me again", ""),
                    theirs = other.issue("me", "");
  Endpoint endpoint;
  endpoint.server = server.url();
  endpoint.caData = authority.pem();
  endpoint.clientCertificateFile = write("c.crt", mine.certificate);
  endpoint.clientKeyFile = write("c.key", mine.key);
  auto t = connect(endpoint);
  const std::string first = get(*t)->body;
  EXPECT_EQ(get(*t)->body, first);
  write("c.crt", next.certificate);
  clock.advance(seconds(60));
  EXPECT_EQ(get(*t)->body, first);  // only half of the pair is new
  write("c.key", next.key);
  clock.advance(seconds(60));
  const auto second = get(*t);
  ASSERT_TRUE(second.ok()) << second.status().str();
  EXPECT_NE(second->body, first);
  write("c.crt", theirs.certificate);
  write("c.key", theirs.key);
  clock.advance(seconds(60));
  EXPECT_FALSE(get(*t).ok());  // the new certificate is presented
  write("c.crt", mine.certificate);
  write("c.key", mine.key);
  EXPECT_TRUE(get(*t).ok());  // read again immediately after the failure
}

TEST_F(RenewalTest, A401HasThePluginAskedAgainAndTheRequestSentOnceMore) {
  std::atomic<int> seen{0};
  LocalServer server([&](const SeenRequest& r) {
    ++seen;
    return r.header("authorization") == "Bearer t2" ? CannedAnswer{200, r.body, {}, {}} : CannedAnswer{401, "", {}, {}};
  });
  Endpoint endpoint;
  endpoint.server = server.url();
  ExecPlugin plugin;
  plugin.apiVersion = "client.authentication.k8s.io/v1";
  plugin.command = "sh";
  plugin.args = {"-c", "printf x >>runs; echo '" + execAnswer(R"({"token":"t'$(wc -c <runs)'"})") + "'"};
  plugin.args[1] = "cd '" + folder.string() + "' && " + plugin.args[1];
  endpoint.exec = plugin;
  auto t = connect(endpoint);
  const auto answer = send(*t, Method::patch, "/x", "{\"a\":1}");
  ASSERT_TRUE(answer.ok()) << answer.status().str();
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "{\"a\":1}");
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(get(*t)->status, 200);
  EXPECT_EQ(seen, 3);
}

TEST_F(RenewalTest, WithoutCredentialsNothingIsSent) {
  std::atomic<int> seen{0};
  LocalServer server([&](const SeenRequest&) {
    ++seen;
    return CannedAnswer{200, "", {}, {}};
  });
  Endpoint endpoint;
  endpoint.server = server.url();
  endpoint.exec = ExecPlugin{};
  endpoint.exec->command = "no-such-login-command";
  auto t = connect(endpoint);
  const auto answer = send(*t, Method::patch, "/x", "{}");
  EXPECT_EQ(answer.status().code(), Code::unavailable);
  EXPECT_THAT(answer.status().message(), HasSubstr("no-such-login-command: no such executable"));
  EXPECT_EQ(seen, 0);
}

TEST_F(RenewalTest, AFreshConnectionIsNotOneFromBefore) {
  LocalServer server(port());
  Endpoint endpoint;
  endpoint.server = server.url();
  auto t = connect(endpoint);
  const std::string first = get(*t)->body;
  HttpRequest fresh;
  fresh.target = "/x";
  fresh.freshConnection = true;
  EXPECT_NE(t->perform(fresh, {})->body, first);
}

}  // namespace
}  // namespace egpu::kube
