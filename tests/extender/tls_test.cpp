// Mutual TLS on the listener: accepted and refused clients, certificates that change while it listens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "controller/http/http.h"
#include "tests/kube/transport/certificates.h"
#include "tests/support/scratch_folder.h"

namespace egpu::http {
namespace {

using kube::Authority;
using kube::Certificate;
using ::testing::HasSubstr;

class Echo final : public Handler {
 public:
  Response handle(const Request& request, std::stop_token) override {
    Response response;
    response.body = request.method + " " + request.path + " " + request.body;
    return response;
  }
};

class TlsTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const auto path = folder.path() + "/" + name;
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
    return path;
  }
  void use(const Authority& authority) {
    const auto certificate = authority.issue("extender", "IP:127.0.0.1");
    files.certificate = write("tls.crt", certificate.certificate);
    files.key = write("tls.key", certificate.key);
  }
  void SetUp() override {
    use(servers);
    files.clientCa = write("ca.crt", clients.pem());
    limits.firstByteTimeout = std::chrono::milliseconds(500);
    limits.maxBodyBytes = 1 << 20;
  }
  void start() {
    auto listening = listen("127.0.0.1:0", echo, limits, files);
    ASSERT_TRUE(listening.ok()) << listening.status().str();
    listener = std::move(*listening);
  }
  int port() const { return std::stoi(listener->address().substr(listener->address().rfind(':') + 1)); }

  /// Returns a client with that certificate (empty: none) that trusts this server's CA.
  std::unique_ptr<httplib::SSLClient> client(const Certificate& own, const Authority& trusts) {
    const auto n = std::to_string(++made);
    auto c = own.certificate.empty()
                 ? std::make_unique<httplib::SSLClient>("127.0.0.1", port())
                 : std::make_unique<httplib::SSLClient>("127.0.0.1", port(), write("c" + n, own.certificate),
                                                        write("k" + n, own.key));
    c->set_ca_cert_path(write("t" + n, trusts.pem()).c_str());
    c->enable_server_certificate_verification(true);
    c->set_keep_alive(true);
    return c;
  }
  std::string post(httplib::SSLClient& c, const std::string& body = "hello") {
    const auto answer = c.Post("/x", body, "application/json");
    return answer ? answer->body : "refused";
  }

  support::ScratchFolder folder;
  Authority servers, clients, strangers;
  Echo echo;
  Limits limits;
  TlsFiles files;
  std::unique_ptr<Listener> listener;
  int made = 0;
};

TEST_F(TlsTest, WhoShowsACertificateOfTheCaGetsIn) {
  start();
  const auto c = client(clients.issue("kube-scheduler", ""), servers);
  EXPECT_EQ(post(*c), "POST /x hello");
  EXPECT_EQ(post(*c, std::string(900'000, 'a')), "POST /x " + std::string(900'000, 'a')) << "on the same connection";
  EXPECT_EQ(c->Post("/x", std::string(2'000'000, 'a'), "application/json")->status, 413);
}

TEST_F(TlsTest, WhoShowsNoneOrAnothersIsRefused) {
  start();
  EXPECT_EQ(post(*client({}, servers)), "refused");
  EXPECT_EQ(post(*client(strangers.issue("kube-scheduler", ""), servers)), "refused");
  EXPECT_EQ(post(*client(servers.issue("kube-scheduler", ""), servers)), "refused")
      << "the server's own CA is not the clients'";
  EXPECT_EQ(post(*client(clients.issue("kube-scheduler", ""), strangers)), "refused") << "by the client";
  EXPECT_EQ(post(*client(clients.issue("kube-scheduler", ""), servers)), "POST /x hello") << "and others are served";
}

TEST_F(TlsTest, OfTheCasOnlyWhoHasOneOfTheNamesGetsIn) {
  files.clientNames = {"system:kube-scheduler", "scheduler.example.com"};
  start();
  const auto got = [&](const std::string& commonName, const std::string& names) {
    return post(*client(clients.issue(commonName, names), servers));
  };
  EXPECT_EQ(got("system:kube-scheduler", ""), "POST /x hello");
  EXPECT_EQ(got("any", "DNS:other.example.com,DNS:scheduler.example.com"), "POST /x hello");
  EXPECT_EQ(got("any", "URI:system:kube-scheduler"), "POST /x hello");
  EXPECT_EQ(got("kubelet", ""), "refused") << "of the CA, and none of them";
  EXPECT_EQ(got("system:kube-scheduler.evil", "DNS:a.scheduler.example.com"), "refused") << "no part of a name counts";
  EXPECT_EQ(got("SYSTEM:KUBE-SCHEDULER", "DNS:*.example.com"), "refused") << "letter by letter";
  EXPECT_EQ(post(*client(strangers.issue("system:kube-scheduler", ""), servers)), "refused") << "the CA comes first";
}

TEST_F(TlsTest, NamesCountWithNewFilesToo) {
  files.clientNames = {"kube-scheduler"};
  start();
  write("ca.crt", strangers.pem());
  std::string known;
  for (int tries = 0; known != "POST /x hello" && tries < 60; ++tries) {
    known = post(*client(strangers.issue("kube-scheduler", ""), servers));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(known, "POST /x hello");
  EXPECT_EQ(post(*client(strangers.issue("kubelet", ""), servers)), "refused");
}

TEST_F(TlsTest, NobodySpeaksPlainHttp) {
  start();
  httplib::Client plain("127.0.0.1", port());
  EXPECT_FALSE(plain.Get("/x"));
}

TEST_F(TlsTest, AnOldProtocolIsRefused) {
  start();
  const auto c = client(clients.issue("kube-scheduler", ""), servers);
  SSL_CTX_set_max_proto_version(c->ssl_context(), TLS1_1_VERSION);
  EXPECT_EQ(post(*c), "refused");
  SSL_CTX_set_max_proto_version(c->ssl_context(), TLS1_2_VERSION);
  EXPECT_EQ(post(*c), "POST /x hello");
}

TEST_F(TlsTest, ASilentClientHoldsNobodyUp) {
  limits.maxConnections = 2;
  start();
  std::vector<int> silent;
  for (int i = 0; i < 2; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port()));
    ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    silent.push_back(fd);
  }
  std::string got = "refused";
  for (int tries = 0; got == "refused" && tries < 50; ++tries) {
    got = post(*client(clients.issue("kube-scheduler", ""), servers));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(got, "POST /x hello");
  for (const int fd : silent) ::close(fd);
}

TEST_F(TlsTest, NewFilesAreTakenAndBadOnesLeaveTheOldInForce) {
  start();
  const auto own = clients.issue("kube-scheduler", "");
  EXPECT_EQ(post(*client(own, servers)), "POST /x hello");
  const auto eventually = [&](const Certificate& certificate, const Authority& trusts, const std::string& wanted) {
    std::string got;
    for (int tries = 0; got != wanted && tries < 60; ++tries) {
      got = post(*client(certificate, trusts));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return got;
  };
  write("tls.crt", "no certificate");
  std::this_thread::sleep_for(std::chrono::milliseconds(1'200));
  EXPECT_EQ(post(*client(own, servers)), "POST /x hello");
  const Authority renewed;
  use(renewed);
  EXPECT_EQ(eventually(own, renewed, "POST /x hello"), "POST /x hello");
  EXPECT_EQ(post(*client(own, servers)), "refused") << "by the client: the certificate is another one";
  write("ca.crt", strangers.pem());
  EXPECT_EQ(eventually(strangers.issue("kube-scheduler", ""), renewed, "POST /x hello"), "POST /x hello");
  EXPECT_EQ(post(*client(own, renewed)), "refused");
}

TEST_F(TlsTest, FilesThatCantBeUsedAreNamed) {
  const auto why = [&](TlsFiles with) { return listen("127.0.0.1:0", echo, limits, with).status().message(); };
  auto with = files;
  with.key = folder.path() + "/nothing";
  EXPECT_THAT(why(with), HasSubstr(folder.path() + "/nothing"));
  with = files;
  with.certificate = files.key;
  EXPECT_THAT(why(with), HasSubstr("tls.key: must hold a certificate in PEM"));
  with = files;
  with.key = write("other.key", clients.issue("x", "").key);
  EXPECT_THAT(why(with), HasSubstr("other.key: must be the key of the certificate"));
  with = files;
  with.key = files.certificate;
  EXPECT_THAT(why(with), HasSubstr("tls.crt: must hold a private key in PEM"));
  with = files;
  with.clientCa = files.key;
  EXPECT_THAT(why(with), HasSubstr("must hold the certificates of the clients' CA in PEM"));
}

TEST_F(TlsTest, StopsWithConnectionsOpen) {
  start();
  const auto c = client(clients.issue("kube-scheduler", ""), servers);
  EXPECT_EQ(post(*c), "POST /x hello");
  listener->stop();
  EXPECT_EQ(post(*c), "refused");
}

}  // namespace
}  // namespace egpu::http
