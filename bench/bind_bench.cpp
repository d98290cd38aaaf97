// Claims bound per second: the real controller against the embedded API server over loopback, next to the same five
// writes per claim sent raw, in the same run. Both use the same client; the raw side has neither watches nor decisions.
#include <benchmark/benchmark.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "api/v1alpha/keys.h"
#include "controller/base/log.h"
#include "controller/codec/patch.h"
#include "controller/http/http.h"
#include "controller/kube/client.h"
#include "controller/kube/events.h"
#include "controller/kube/transport/curl_transport.h"
#include "controller/plugin/in_process.h"
#include "controller/reconcile/controller.h"
#include "controller/standalone/apiserver/server.h"
#include "controller/standalone/sim/cluster.h"

namespace {

using namespace egpu;
namespace keys = v1alpha::keys;

constexpr int kClaims = 2'000;
constexpr int kInFlight = 16;

void must(const base::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "%s\n", s.str().c_str());
  std::abort();
}
template <class T>
T must(base::Result<T> r) {
  must(r.status());
  return std::move(*r);
}

/// A server with 100 nodes of 8 cards, a class and the claims, all on loopback.
struct World {
  base::SystemClock clock;
  base::Random random{7};
  base::NoMetrics metrics;
  std::unique_ptr<apiserver::Server> server = must(apiserver::Server::create({}, clock, random));
  std::unique_ptr<http::Listener> listener = must(http::listen("127.0.0.1:0", *server));
  std::unique_ptr<kube::Transport> transport = connect();
  kube::Client client{*transport, clock, random, metrics};
  kube::EventRecorder events{client, "bench"};
  plugin::InProcessRegistry plugins;
  sim::Cluster cluster{nodes(), client, plugins, events, clock};

  World() {
    must(plugins.load(EGPU_GPUSHARE));
    must(cluster.publish({}));
    v1alpha::ElasticGPUClass cls;
    cls.metadata.name = "share";
    cls.provisioner = "gpushare.provisioner.elasticgpu.io";
    must(client.create(cls));
    for (int i = 0; i < kClaims; ++i) {
      v1alpha::ElasticGPUClaim c;
      c.metadata.name = "c" + std::to_string(i);
      c.metadata.namespace_ = "default";
      c.spec.className = "share";
      c.spec.requests = {{"elasticgpu.io/gpu-core", std::to_string(5 + i % 30)},
                         {"elasticgpu.io/gpu-memory", std::to_string(1 + i % 20)}};
      must(client.create(c));
    }
  }
  std::unique_ptr<kube::Transport> connect() {
    kube::Endpoint endpoint;
    endpoint.server = "http://" + listener->address();
    return must(kube::curlTransport(endpoint, clock));
  }
  static std::vector<sim::SimNode> nodes() {
    return must(sim::parseNodes("nodes: [{name: n, count: 100, gpus: [{model: A100, count: 8, memory: 80Gi}]}]"));
  }
  int64_t bound() {
    int64_t n = 0;
    for (const auto& c : must(client.listAll<v1alpha::ElasticGPUClaim>({}))) n += c.status.phase == "Bound" ? 1 : 0;
    return n;
  }
};

double seconds(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

double boundPerSecond() {
  World w;
  reconcile::ControllerOptions options;
  options.workers = kInFlight;
  reconcile::Controller controller(w.client, w.plugins, w.clock, w.events, w.metrics, options);
  const auto start = std::chrono::steady_clock::now();
  controller.start();
  // The controller's own cache tells when all is bound: asking the server would slow it down.
  while (true) {
    int64_t n = 0;
    controller.stores().claims.forEach([&](const auto& c) { n += c->status.phase == "Bound" ? 1 : 0; });
    if (n == kClaims) break;
    if (seconds(start) > 120)
      must(base::Status(base::Code::deadline, std::to_string(n) + " claims bound after two minutes"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const double took = seconds(start);
  controller.stop();
  if (w.bound() != kClaims) std::abort();
  return kClaims / took;
}

/// W1, W2, W4, W5 and W6 of one claim, as the controller writes them.
void rawBind(kube::Client& client, const v1alpha::ElasticGPUClaim& claim, const v1alpha::ElasticGPU& card) {
  const core::ObjectKey key = core::keyOf(claim.metadata);
  v1alpha::ElasticGPU d;
  d.metadata.name = std::string(keys::kDevicePrefix) + claim.metadata.uid;
  d.metadata.labels = {{std::string(keys::kRoleLabel), std::string(keys::kRoleDevice)},
                       {std::string(keys::kNodeLabel), card.spec.card->nodeName}};
  d.metadata.finalizers = {std::string(keys::kDeviceFinalizer)};
  d.spec.source.kind = v1alpha::SourceKind::gpuShare;
  d.spec.source.gpuNames = {card.metadata.name};
  d.spec.nodeName = card.spec.card->nodeName;
  d.spec.cards = {{card.metadata.name, card.spec.card->uuid, 20, 1 << 30, 20, 1 << 30}};
  d.spec.provisioner = "gpushare.provisioner.elasticgpu.io";
  d.spec.className = "share";
  d.spec.reclaimPolicy = "Delete";
  d.spec.nodeAffinityRequired = core::NodeSelector{{{{}, {{"metadata.name", "In", {d.spec.nodeName}}}}}};
  d.spec.claimRef = v1alpha::ClaimRef{key.namespace_, key.name, claim.metadata.uid};
  const auto made = must(client.create(d));
  must(client
           .patch<v1alpha::ElasticGPU>({"", card.metadata.name}, kube::PatchType::merge,
                                       codec::patch::ledgerEntry(card.metadata.uid, made.metadata.uid,
                                                                 {d.metadata.name, key.str(), 20, 1 << 30}))
           .status());
  v1alpha::ElasticGPUStatus gpuStatus;
  gpuStatus.phase = "Bound";
  must(client
           .patch<v1alpha::ElasticGPU>(
               {"", d.metadata.name}, kube::PatchType::merge,
               codec::patch::gpuStatus(made.metadata.uid, made.metadata.resourceVersion, {}, gpuStatus), "status")
           .status());
  const auto named = must(client.patch<v1alpha::ElasticGPUClaim>(
      key, kube::PatchType::merge,
      codec::patch::claimBind(claim.metadata.uid, claim.metadata.resourceVersion, {std::string(keys::kClaimFinalizer)},
                              d.metadata.name)));
  v1alpha::ElasticGPUClaimStatus status;
  status.phase = "Bound";
  status.elasticGPUName = d.metadata.name;
  status.nodeName = d.spec.nodeName;
  status.capacity = {{"core", "2%"}, {"memory", "1Gi"}};
  status.conditions = {{"Accepted", "True", "Accepted", "", "2026-01-02T03:04:05Z", 1},
                       {"Bound", "True", "Bound", "", "2026-01-02T03:04:05Z", 1}};
  must(client
           .patch<v1alpha::ElasticGPUClaim>(
               key, kube::PatchType::merge,
               codec::patch::claimStatus(claim.metadata.uid, named.metadata.resourceVersion, {}, status), "status")
           .status());
}

double rawPerSecond() {
  World w;
  const auto claims = must(w.client.listAll<v1alpha::ElasticGPUClaim>({}));
  const auto cards = must(w.client.listAll<v1alpha::ElasticGPU>({}));
  std::atomic<std::size_t> next{0};
  const auto start = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kInFlight; ++t)
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < claims.size(); i = next++)
          rawBind(w.client, claims[i], cards[i % cards.size()]);
      });
  }
  const double took = seconds(start);
  if (w.bound() != kClaims) std::abort();
  return kClaims / took;
}

/// Interleaved, so that a noisy neighbour hits both.
void ClaimsBound(benchmark::State& state) {
  base::log::configure(base::log::Level::warn, false);
  double bound = 0, raw = 0;
  int64_t rounds = 0;
  for (auto _ : state) {
    bound += boundPerSecond();
    raw += rawPerSecond();
    ++rounds;
  }
  const auto n = static_cast<double>(rounds);
  state.counters["claims_per_s"] = bound / n;
  state.counters["raw_claims_per_s"] = raw / n;
  state.counters["ratio"] = bound / raw;
}
BENCHMARK(ClaimsBound)->Iterations(3)->Unit(benchmark::kSecond);

}  // namespace
