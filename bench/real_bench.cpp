// Takes one measurement against a real API server and prints one line of JSON to standard output. real_server.py starts
// the servers, interleaves the compared measurements and prints the tables.
//   real_bench KUBECONFIG bind N     N pending claims, then a controller: claims bound per second
//   real_bench KUBECONFIG raw N      the same writes, sent raw
//   real_bench KUBECONFIG latency N  one claim at a time: from create to Bound; and its writes one after the other
//   real_bench KUBECONFIG list       all claims, devices and cards: pages one after the other, kinds at once
//   real_bench KUBECONFIG start      a standby's cold start: until its caches have synced
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/binding.h"
#include "bench/measure.h"
#include "controller/base/log.h"
#include "controller/kube/config/kubeconfig.h"

namespace {

using namespace egpu;
using bench::BindingSite;
using bench::cpuSeconds;
using bench::must;

constexpr int kInFlight = 32;

/// Resident bytes, after the allocator has returned its free memory.
int64_t resident() {
  ::malloc_trim(0);
  std::ifstream in("/proc/self/statm");
  int64_t size = 0, pages = 0;
  in >> size >> pages;
  return pages * 4096;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void printCounts(const std::map<std::string, int64_t>& counts) {
  std::printf("\"requests\":{");
  const char* separator = "";
  for (const auto& [what, times] : counts) {
    std::printf("%s\"%s\":%lld", separator, what.c_str(), static_cast<long long>(times));
    separator = ",";
  }
  std::printf("}");
}

int bind(BindingSite& site, int claims, bool raw) {
  site.publish(claims);
  (void)site.transport.take();
  const double cpu = cpuSeconds();
  const double took = raw ? bench::rawBindAll(site, kInFlight) : bench::bindAll(site, claims, kInFlight);
  std::printf("{\"claims_per_s\":%.1f,\"cpu_us_per_claim\":%.1f,", claims / took, (cpuSeconds() - cpu) / claims * 1e6);
  printCounts(site.transport.take());
  std::printf("}\n");
  return 0;
}

/// Alternates in groups of claims: bound by a controller, then by raw writes while no controller runs.
int latency(BindingSite& site, int claims) {
  constexpr int kRounds = 5;
  site.publish(0);
  std::vector<double> bound, raw;
  int number = 0;
  for (int round = 0; round < kRounds; ++round) {
    {
      reconcile::Controller controller(site.client, site.plugins, site.clock, site.events, site.metrics, {});
      controller.start();
      (void)controller.waitUntilReady();
      for (int i = 0; i < claims / kRounds; ++i) {
        const auto start = std::chrono::steady_clock::now();
        const auto key = core::keyOf(site.makeClaim(number++, "share").metadata);
        for (auto seen = controller.stores().claims.get(key); !seen || seen->status.phase != "Bound";
             seen = controller.stores().claims.get(key))
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        bound.push_back(bench::secondsSince(start) * 1e3);
      }
      controller.stop();
    }
    bench::Decisions decisions(site);
    for (int i = 0; i < claims / kRounds; ++i) {
      const auto start = std::chrono::steady_clock::now();
      bench::rawBind(site.client, decisions.next(site.makeClaim(number++, "share")));
      raw.push_back(bench::secondsSince(start) * 1e3);
    }
  }
  std::printf("{\"bound_ms\":%.3f,\"writes_ms\":%.3f,\"bound_min_ms\":%.3f,\"writes_min_ms\":%.3f}\n", median(bound),
              median(raw), *std::min_element(bound.begin(), bound.end()), *std::min_element(raw.begin(), raw.end()));
  return 0;
}

/// Objects and bytes of all pages of one collection. Only the token of the next page is decoded.
std::pair<int64_t, int64_t> pages(kube::Client& client, const std::string& path) {
  std::string token;
  int64_t objects = 0, bytes = 0;
  do {
    kube::HttpRequest request;
    request.target = path + "?limit=500" + (token.empty() ? "" : "&continue=" + token);
    const auto answer = must(client.call(request));
    bytes += static_cast<int64_t>(answer.body.size());
    for (auto at = answer.body.find("\"uid\":\""); at != std::string::npos; at = answer.body.find("\"uid\":\"", at + 1))
      ++objects;
    const std::string mark = "\"continue\":\"";
    const auto at = answer.body.find(mark);
    const auto from = at + mark.size();
    token = at == std::string::npos ? "" : answer.body.substr(from, answer.body.find('"', from) - from);
  } while (!token.empty());
  return {objects, bytes};
}

int list(BindingSite& site) {
  const auto start = std::chrono::steady_clock::now();
  std::pair<int64_t, int64_t> claims, gpus;
  {
    std::jthread one(
        [&] { claims = pages(site.client, kube::Client::path(core::kindOf<v1alpha::ElasticGPUClaim>, {})); });
    std::jthread two([&] { gpus = pages(site.client, kube::Client::path(core::kindOf<v1alpha::ElasticGPU>, {})); });
  }
  std::printf("{\"seconds\":%.3f,\"megabytes\":%.1f}\n", bench::secondsSince(start),
              static_cast<double>(claims.second + gpus.second) / 1e6);
  return 0;
}

int start(BindingSite& site) {
  reconcile::ControllerOptions options;
  options.standby = true;
  const int64_t before = resident();
  const double cpu = cpuSeconds();
  const auto from = std::chrono::steady_clock::now();
  reconcile::Controller controller(site.client, site.plugins, site.clock, site.events, site.metrics, options);
  controller.start();
  (void)controller.waitUntilReady();
  const double took = bench::secondsSince(from), used = cpuSeconds() - cpu;
  const auto claims = static_cast<int64_t>(controller.stores().claims.size());
  const auto gpus = static_cast<int64_t>(controller.stores().devices.size() + controller.stores().cards.size());
  std::printf("{\"seconds\":%.3f,\"cpu_s\":%.3f,\"claims\":%lld,\"gpus\":%lld,\"resident_bytes\":%lld}\n", took, used,
              static_cast<long long>(claims), static_cast<long long>(gpus),
              static_cast<long long>(resident() - before));
  controller.stop();
  return 0;
}

int usage() {
  std::fprintf(stderr, "usage: real_bench KUBECONFIG bind|raw|latency N, or list|start\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return usage();
  base::log::configure(base::log::Level::warn, false);
  BindingSite site(must(kube::loadEndpoint({argv[1], {}}, kube::Environment::process())));
  const std::string what = argv[2];
  const int count = argc > 3 ? std::atoi(argv[3]) : 0;
  if (what == "list") return list(site);
  if (what == "start") return start(site);
  if (count <= 0) return usage();
  if (what == "bind" || what == "raw") return bind(site, count, what == "raw");
  if (what == "latency") return latency(site, count);
  return usage();
}
