// An API server's objects for the benchmarks of binding, and a client that counts its requests.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "bench/measure.h"
#include "controller/kube/client.h"
#include "controller/kube/events.h"
#include "controller/kube/transport/curl_transport.h"
#include "controller/plugin/in_process.h"
#include "controller/standalone/sim/cluster.h"

namespace egpu::bench {

/// Counts requests by method, resource and status, such as "POST elasticgpus 201". Thread-safe.
class CountingTransport final : public kube::Transport {
 public:
  explicit CountingTransport(kube::Transport& real) : real_(real) {}
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    auto answer = real_.perform(request, std::move(stop));
    const std::lock_guard lock(mutex_);
    ++counts_[std::string(kube::toString(request.method)) + " " + resource(request.target) + " " +
              (answer ? std::to_string(answer->status) : "failed")];
    return answer;
  }
  base::Result<kube::HttpResponse> stream(const kube::HttpRequest& request,
                                          const std::function<bool(std::string_view)>& data,
                                          std::stop_token stop) override {
    return real_.stream(request, data, std::move(stop));
  }
  std::map<std::string, int64_t> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(counts_, {});
  }

 private:
  /// Returns "elasticgpus/status" for "/apis/elasticgpu.io/v1alpha/elasticgpus/egpu-…/status".
  static std::string resource(const std::string& target) {
    const std::string path = target.substr(0, target.find('?'));
    for (const char* each : {"elasticgpuclaims", "elasticgpuclasses", "elasticgpus", "events", "nodes"}) {
      const auto at = path.find(std::string("/") + each);
      if (at == std::string::npos) continue;
      const bool status = path.size() > 7 && path.compare(path.size() - 7, 7, "/status") == 0;
      return std::string(each) + (status ? "/status" : "");
    }
    return path;
  }
  kube::Transport& real_;
  std::mutex mutex_;
  std::map<std::string, int64_t> counts_;
};

/// A client of an API server, which holds 100 nodes of 8 cards, a class and claims of that class.
class BindingSite {
 public:
  explicit BindingSite(const kube::Endpoint& endpoint) : transport_(must(kube::curlTransport(endpoint, clock))) {
    must(plugins.load(EGPU_GPUSHARE));
  }

  void publish(int claims) {
    sim::Cluster cluster(
        must(sim::parseNodes("nodes: [{name: n, count: 100, gpus: [{model: A100, count: 8, memory: 80Gi}]}]")), client,
        plugins, events, clock, {});
    must(cluster.publish({}));
    v1alpha::ElasticGPUClass cls;
    cls.metadata.name = "share";
    cls.provisioner = "gpushare.provisioner.elasticgpu.io";
    must(client.create(cls));
    for (int i = 0; i < claims; ++i) (void)makeClaim(i, "share");
  }
  v1alpha::ElasticGPUClaim makeClaim(int i, const std::string& cls) {
    v1alpha::ElasticGPUClaim c;
    c.metadata.name = "c" + std::to_string(i);
    c.metadata.namespace_ = "default";
    c.spec.className = cls;
    c.spec.requests = {{"elasticgpu.io/gpu-core", std::to_string(5 + i % 30)},
                       {"elasticgpu.io/gpu-memory", std::to_string(1 + i % 20)}};
    return must(client.create(c));
  }
  int64_t bound() {
    int64_t n = 0;
    for (const auto& c : must(client.listAll<v1alpha::ElasticGPUClaim>({}))) n += c.status.phase == "Bound" ? 1 : 0;
    return n;
  }

  base::SystemClock clock;
  base::Random random{7};
  base::NoMetrics metrics;

 private:
  std::unique_ptr<kube::Transport> transport_;

 public:
  CountingTransport transport{*transport_};
  kube::Client client{transport, clock, random, metrics};
  kube::EventRecorder events{client, "bench"};
  plugin::InProcessRegistry plugins;
};

}  // namespace egpu::bench
