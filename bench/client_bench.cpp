// Measures the API client alone: small merge patches in flight over one transport, and the processor time of this
// process. The embedded API server runs in a separate process, behind nghttpx if that is installed (HTTP/2 over TLS, as
// in a cluster).
//   EGPU_BENCH_KUBECONFIG   measures that API server too; its namespace "default" gets leases named bench-…
#include <benchmark/benchmark.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/measure.h"
#include "controller/base/log.h"
#include "controller/http/http.h"
#include "controller/kube/client.h"
#include "controller/kube/config/kubeconfig.h"
#include "controller/kube/transport/curl_transport.h"
#include "controller/standalone/apiserver/server.h"
#include "tests/kube/transport/local_server.h"

namespace {

using namespace egpu;
using bench::cpuSeconds;
using bench::must;

constexpr int kLeases = 256;

/// Runs the embedded API server in a child process, so that its CPU time is not counted as the client's.
class ServerProcess {
 public:
  ServerProcess() {
    int pipe[2];
    if (::pipe(pipe) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) serve(pipe[1]);
    ::close(pipe[1]);
    char text[64] = {};
    if (::read(pipe[0], text, sizeof text - 1) <= 0) std::abort();
    ::close(pipe[0]);
    address_ = text;
  }
  ~ServerProcess() {
    ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  const std::string& address() const { return address_; }
  int port() const { return std::atoi(address_.substr(address_.rfind(':') + 1).c_str()); }

 private:
  [[noreturn]] static void serve(int report) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    base::SystemClock clock;
    base::Random random;
    auto server = must(apiserver::Server::create({}, clock, random));
    auto listener = must(http::listen("127.0.0.1:0", *server));
    const std::string address = listener->address();
    if (::write(report, address.data(), address.size()) < 0) std::abort();
    for (;;) ::pause();
  }
  pid_t pid_ = -1;
  std::string address_;
};

/// The measured servers by name. Created before the first benchmark, destroyed after the last.
struct Servers {
  std::string folder =
      (std::filesystem::temp_directory_path() / ("client-bench-" + std::to_string(::getpid()))).string();
  ServerProcess embedded;
  kube::Authority authority;
  std::optional<kube::Http2Proxy> proxy;
  std::vector<std::pair<std::string, kube::Endpoint>> all;

  Servers() {
    std::filesystem::create_directories(folder);
    kube::Endpoint plain;
    plain.server = "http://" + embedded.address();
    all.emplace_back("embedded, HTTP/1.1", plain);
    if (kube::Http2Proxy::available()) {
      proxy.emplace(embedded.port(), authority.issue("server", "IP:127.0.0.1"), folder);
      kube::Endpoint tls;
      tls.server = "https://127.0.0.1:" + std::to_string(proxy->port());
      tls.caData = authority.pem();
      all.emplace_back("embedded behind nghttpx, HTTP/2", tls);
    }
    if (const char* kubeconfig = std::getenv("EGPU_BENCH_KUBECONFIG"))
      all.emplace_back("real", must(kube::loadEndpoint({kubeconfig, {}}, kube::Environment::process())));
  }
  ~Servers() { std::filesystem::remove_all(folder); }
};

int openSockets() {
  int n = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    n += std::filesystem::read_symlink(each.path(), gone).string().rfind("socket:", 0) == 0 ? 1 : 0;
  }
  return n;
}

void patches(benchmark::State& state, const kube::Endpoint& endpoint) {
  const auto inFlight = static_cast<int>(state.range(0));
  const int each = inFlight == 1 ? 500 : 4'000;
  base::SystemClock clock;
  base::Random random;
  base::NoMetrics metrics;
  const int before = openSockets();
  const auto transport = must(kube::curlTransport(endpoint, clock));
  kube::Client client(*transport, clock, random, metrics);
  core::Lease lease;
  lease.metadata.namespace_ = "default";
  for (int i = 0; i < kLeases; ++i) {
    lease.metadata.name = "bench-" + std::to_string(i);
    if (const auto s = client.create(lease).status(); s.code() != base::Code::alreadyExists) must(s);
  }
  int64_t done = 0;
  double cpu = 0, wall = 0;
  for (auto _ : state) {
    const double cpuFrom = cpuSeconds();
    const auto from = clock.now();
    std::atomic<int> next{0};
    {
      std::vector<std::jthread> writers;
      for (int w = 0; w < inFlight; ++w)
        writers.emplace_back([&] {
          for (int i = next++; i < each; i = next++)
            must(client
                     .patch<core::Lease>({"default", "bench-" + std::to_string(i % kLeases)}, kube::PatchType::merge,
                                         R"({"metadata":{"labels":{"n":")" + std::to_string(i) + "\"}}}")
                     .status());
        });
    }
    wall += std::chrono::duration<double>(clock.now() - from).count();
    cpu += cpuSeconds() - cpuFrom;
    done += each;
  }
  const auto n = static_cast<double>(done);
  state.counters["requests_per_s"] = n / wall;
  state.counters["own_cpu_us"] = cpu / n * 1e6;
  state.counters["connections"] = openSockets() - before;
}

}  // namespace

int main(int argc, char** argv) {
  const Servers servers;  // before any thread starts, because it forks
  base::log::configure(base::log::Level::warn, false);
  benchmark::Initialize(&argc, argv);
  for (const auto& [name, endpoint] : servers.all)
    benchmark::RegisterBenchmark(("Patches/" + name).c_str(),
                                 [&endpoint](benchmark::State& s) { patches(s, endpoint); })
        ->Arg(1)
        ->Arg(32)
        ->Arg(64)
        ->Iterations(1)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
