// B5: measures how long a scheduler waits for the extender, over HTTP with mutual TLS on loopback. The workload is
// elastic-gpu-scheduler's: N nodes of 8 cards of 32 GiB, card c of node i with (7i + 13c) mod 10 tenths used, pods
// whose claims ask for core 10 + i mod 40 % and memory 6 GiB. For each pod it calls filter with all nodes, then
// prioritize with the nodes that passed. For comparison it interleaves a listener that echoes the same bytes over the
// same kind of connection, and an empty request. The client is minimal, so that it costs as little as possible.
//
//   extender_bench [NODES=5000] [PODS=2000]
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bench/measure.h"
#include "controller/allocator/allocator.h"
#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"
#include "controller/server/extender/extender.h"
#include "tests/kube/transport/certificates.h"
#include "tests/support/fake_plugins.h"
#include "tests/support/scratch_folder.h"

namespace egpu::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kGi = int64_t{1} << 30;
constexpr const char* kPlugin = "gpushare.provisioner.elasticgpu.io";

/// A transport without API server: the benchmark sends no API requests.
class NoServer final : public kube::Transport {
 public:
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest&, std::stop_token) override {
    return base::Status(base::Code::unavailable, "there is none");
  }
  base::Result<kube::HttpResponse> stream(const kube::HttpRequest&, const std::function<bool(std::string_view)>&,
                                          std::stop_token) override {
    return base::Status(base::Code::unavailable, "there is none");
  }
};

class NoEvents final : public kube::EventSink {
 public:
  void event(const core::ObjectReference&, std::string_view, std::string_view, std::string_view) override {}
};

class EchoHandler final : public http::Handler {
 public:
  http::Response handle(const http::Request& request, std::stop_token) override {
    http::Response response;
    response.body = request.body;
    return response;
  }
};

/// The controller's caches of a cluster, and the extender that answers from them.
class Subject {
 public:
  explicit Subject(int64_t nodes) {
    for (int64_t i = 0; i < nodes; ++i) addNode(i);
    cache::Class cls;
    cls.metadata.name = cls.metadata.uid = "share";
    cls.metadata.resourceVersion = next();
    cls.provisioner = kPlugin;
    cls.bindingMode = "WaitForFirstConsumer";
    stores.classes.informed(cls);
    for (int64_t i = 0; i < 40; ++i) {
      cache::Claim claim;
      claim.metadata.name = "claim-" + std::to_string(i);
      claim.metadata.uid = "uid-" + claim.metadata.name;
      claim.metadata.namespace_ = "team";
      claim.metadata.resourceVersion = next();
      claim.spec.className = "share";
      claim.spec.requests = {{"elasticgpu.io/gpu-core", std::to_string(10 + i)}, {"elasticgpu.io/gpu-memory", "6Gi"}};
      stores.claims.informed(claim);
    }
  }

  cache::Stores stores;
  allocator::Allocator cluster{stores};
  server::Extender& extender() { return extender_; }
  std::string names;  ///< names of the nodes, as a JSON array's elements

 private:
  std::string next() { return std::to_string(++version_); }
  void addNode(int64_t i) {
    char name[32];
    std::snprintf(name, sizeof name, "node-%05lld", static_cast<long long>(i));
    names += std::string(names.empty() ? "\"" : ",\"") + name + "\"";
    core::Node node;
    node.metadata.name = node.metadata.uid = name;
    node.metadata.resourceVersion = next();
    node.ready = true;
    stores.nodes.informed(node);
    for (int64_t c = 0; c < 8; ++c) {
      cache::Gpu gpu;
      gpu.metadata.name = gpu.metadata.uid = "gpu-" + std::string(name) + "-" + std::to_string(c);
      gpu.metadata.resourceVersion = next();
      auto& card = gpu.spec.card.emplace();
      card.uuid = gpu.metadata.name;
      card.nodeName = name;
      card.index = c;
      card.model = "Tesla-V100-SXM2-32GB";
      card.memory = 32 * kGi;
      if (const int64_t tenths = (7 * i + 13 * c) % 10; tenths > 0)
        gpu.spec.allocations["base-" + gpu.metadata.name] = {"egpu-base", "team/base", tenths * 100,
                                                             32 * kGi / 10 * tenths};
      stores.cards.informed(gpu);
    }
  }

  uint64_t version_ = 0;
  base::SystemClock clock_;
  base::Random random_;
  base::NoMetrics metrics_;
  NoServer transport_;
  NoEvents events_;
  support::FakeProvisioner plugin_{kPlugin};
  support::FakeRegistry registry_{};
  kube::Client client_{transport_, clock_, random_, metrics_};
  bool added_ = (registry_.add(plugin_), true);
  reconcile::Reconciler reconciler_{client_, stores,  cluster,  registry_,
                                    clock_,  events_, metrics_, [](const std::string&) {}};
  server::Extender extender_{stores, cluster, reconciler_, metrics_, [] { return std::string(); }};
};

std::string write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  return path;
}

/// A client with one persistent connection. Answers must have a Content-Length.
class Client {
 public:
  Client(const std::string& address, const std::string& certificate, const std::string& key)
      : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free), ssl_(nullptr, SSL_free) {
    if (SSL_CTX_use_certificate_chain_file(context_.get(), certificate.c_str()) != 1 ||
        SSL_CTX_use_PrivateKey_file(context_.get(), key.c_str(), SSL_FILETYPE_PEM) != 1)
      std::abort();
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + address.rfind(':') + 1)));
    ssl_.reset(SSL_new(context_.get()));
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0 || SSL_set_fd(ssl_.get(), fd_) != 1 ||
        SSL_connect(ssl_.get()) != 1)
      std::abort();
  }
  ~Client() { ::close(fd_); }

  /// Returns the body. Appends to `took` the milliseconds from the first byte sent to the last byte received.
  std::string post(const std::string& path, const std::string& body, std::vector<double>& took) {
    const std::string request =
        "POST " + path +
        " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\n\r\n" + body;
    const auto start = Clock::now();
    std::size_t sent = 0;
    while (sent < request.size()) {
      const int n = SSL_write(ssl_.get(), request.data() + sent, static_cast<int>(request.size() - sent));
      if (n <= 0) std::abort();
      sent += static_cast<std::size_t>(n);
    }
    std::string answer;
    std::size_t head = std::string::npos, length = 0;
    while (head == std::string::npos || answer.size() < head + length) {
      const int n = SSL_read(ssl_.get(), buffer_.data(), static_cast<int>(buffer_.size()));
      if (n <= 0) std::abort();
      answer.append(buffer_.data(), static_cast<std::size_t>(n));
      if (head != std::string::npos || (head = answer.find("\r\n\r\n")) == std::string::npos) continue;
      head += 4;
      length = static_cast<std::size_t>(std::atoll(answer.c_str() + answer.find("Content-Length: ") + 16));
    }
    took.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    return answer.substr(head);
  }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  int fd_ = -1;
  std::vector<char> buffer_ = std::vector<char>(std::size_t{64} * 1024);
};

std::string podOf(int64_t i) {
  const auto claim = "claim-" + std::to_string(i % 40);
  return R"({"metadata":{"name":"pod-)" + std::to_string(i) + R"(","namespace":"team","uid":"uid-pod-)" +
         std::to_string(i) + R"(","annotations":{"egpuc.elasticgpu.io/main":")" + claim +
         R"("}},"spec":{"schedulerName":"own","resourceClaims":[{"name":"main","resourceClaimName":")" + claim +
         R"("}],"containers":[{"name":"main","image":"x","resources":{"requests":{"cpu":"1","memory":"1Gi"},)"
         R"("claims":[{"name":"main"}]}}]},"status":{"phase":"Pending"}})";
}

std::string askOf(int64_t i, const std::string& names) {
  return R"({"Pod":)" + podOf(i) + R"(,"Nodes":null,"NodeNames":[)" + names + "]}";
}

/// Returns the text between the brackets of {"NodeNames":[…],…}.
std::string passing(const std::string& answer) {
  const auto begin = answer.find('[') + 1;
  return answer.substr(begin, answer.find(']') - begin);
}

void show(const char* what, std::vector<double> took) {
  std::sort(took.begin(), took.end());
  std::printf("%-52s p50 %6.3f   p99 %6.3f ms\n", what, took[took.size() / 2], took[took.size() * 99 / 100]);
}

struct Took {
  std::vector<double> filter, prioritize, both, same, empty, direct;
  double cpu = 0, cpuSame = 0;  ///< seconds of this process, client and server: filter and prioritize; echo only
};

Took measure(Subject& subject, Client& client, Client& echo, int64_t pods) {
  Took took;
  std::vector<double> unused;
  for (int64_t i = -50; i < pods; ++i) {
    auto& of = took;
    if (i == 0) of = {};
    const auto body = askOf(i + 50, subject.names);
    const double before = cpuSeconds();
    const auto answer = client.post("/extender/filter", body, of.filter);
    const auto next = askOf(i + 50, passing(answer));
    (void)client.post("/extender/prioritize", next, of.prioritize);
    of.both.push_back(of.filter.back() + of.prioritize.back());
    const double between = cpuSeconds();
    (void)echo.post("/", body, of.same);
    of.cpu += between - before;
    of.cpuSame += cpuSeconds() - between;
    (void)echo.post("/", "", of.empty);
    const auto start = Clock::now();
    (void)subject.extender().filter(body);
    of.direct.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    if (i == 0) std::printf("%zu bytes asked, %zu answered, %zu asked next\n", body.size(), answer.size(), next.size());
  }
  return took;
}

int run(int64_t nodes, int64_t pods) {
  const support::ScratchFolder folder;
  const kube::Authority servers, clients;
  const auto own = servers.issue("extender", "IP:127.0.0.1"), scheduler = clients.issue("kube-scheduler", "");
  const http::TlsFiles files = {write(folder.path() + "/tls.crt", own.certificate),
                                write(folder.path() + "/tls.key", own.key),
                                write(folder.path() + "/ca.crt", clients.pem())};
  const auto certificate = write(folder.path() + "/c.crt", scheduler.certificate),
             key = write(folder.path() + "/c.key", scheduler.key);
  Subject subject(nodes);
  EchoHandler echo;
  const auto limits = server::Extender::limits();
  const auto listener = must(http::listen("127.0.0.1:0", subject.extender(), limits, files));
  const auto echoing = must(http::listen("127.0.0.1:0", echo, limits, files));
  Client client(listener->address(), certificate, key), plain(echoing->address(), certificate, key);
  const auto took = measure(subject, client, plain, pods);
  std::printf("%lld nodes of 8 cards, %lld pods, TLS on loopback\n", static_cast<long long>(nodes),
              static_cast<long long>(pods));
  show("filter", took.filter);
  show("prioritize", took.prioritize);
  show("filter, then prioritize", took.both);
  show("filter's bytes sent and sent back, nothing else", took.same);
  show("an empty request", took.empty);
  show("filter without HTTP", took.direct);
  const auto each = 1000 / static_cast<double>(took.direct.size());
  std::printf(
      "processor, client and server: %.3f ms for filter and prioritize, %.3f ms for one exchange of the bytes\n",
      took.cpu * each, took.cpuSame * each);
  return 0;
}

}  // namespace
}  // namespace egpu::bench

int main(int argc, char** argv) {
  return egpu::bench::run(argc > 1 ? std::atoll(argv[1]) : 5000, argc > 2 ? std::atoll(argv[2]) : 2000);
}
