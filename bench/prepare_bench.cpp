// Measures how long the agent takes to prepare and unprepare 1, 30 and 100 claims at once, and where the time goes. All
// parts except the hardware and gRPC are real: API reads over loopback, plugins in processes of their own, CDI files on
// the disk of the temporary folder. "own" is the time without the plugin's calls.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "bench/node_side.h"
#include "controller/agent/dra/claim_queue.h"
#include "controller/agent/dra/server.h"
#include "controller/base/log.h"

namespace {

using namespace egpu;
using bench::Split;
using Splits = std::vector<Split>;

/// Runs `work` for all claims at once, as the kubelet's calls arrive.
Splits allAtOnce(agent::dra::ClaimQueue& queue, const std::vector<agent::ClaimRef>& claims,
                 const std::function<base::Status(const agent::ClaimRef&)>& work) {
  Splits splits(claims.size());
  std::atomic<std::size_t> left{claims.size()};
  const auto begun = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < claims.size(); ++i)
    queue.add(claims[i].uid, [&, i] {
      bench::split = &splits[i];
      splits[i].worker = bench::secondsSince(begun);
      bench::must(work(claims[i]));
      splits[i].total = bench::secondsSince(begun);
      bench::split = nullptr;
      if (--left == 0) left.notify_all();
    });
  for (std::size_t now = left; now > 0; now = left) left.wait(now);
  return splits;
}

double quantile(const Splits& all, double q, const std::function<double(const Split&)>& of) {
  std::vector<double> values;
  for (const auto& each : all) values.push_back(of(each) * 1000);
  std::sort(values.begin(), values.end());
  return values.at(static_cast<std::size_t>(std::lround(q * static_cast<double>(values.size() - 1))));
}

void show(benchmark::State& state, const Splits& all) {
  const auto own = [](const Split& s) { return s.total - s.plugin; };
  const auto rest = [](const Split& s) { return s.total - s.worker - s.api - s.plugin - s.lock - s.disk; };
  const auto p99 = [&](const char* name, const std::function<double(const Split&)>& of) {
    state.counters[name] = quantile(all, 0.99, of);
  };
  state.counters["A_p50_ms"] = quantile(all, 0.5, [](const Split& s) { return s.total; });
  p99("A_p99_ms", [](const Split& s) { return s.total; });
  state.counters["B_own_p50"] = quantile(all, 0.5, own);
  p99("B_own_p99", own);
  state.counters["C_plugin_p50"] = quantile(all, 0.5, [](const Split& s) { return s.plugin; });
  p99("C_plugin_p99", [](const Split& s) { return s.plugin; });
  p99("D_worker", [](const Split& s) { return s.worker; });
  p99("E_api", [](const Split& s) { return s.api; });
  p99("F_lock", [](const Split& s) { return s.lock; });
  p99("G_disk", [](const Split& s) { return s.disk; });
  p99("H_rest", rest);
}

void measure(benchmark::State& state, bool prepared) {
  base::log::configure(base::log::Level::error, false);
  static const bench::NvidiaMachine machine;
  bench::NodeSide node(machine, static_cast<int>(state.range(0)));
  agent::dra::ClaimQueue queue(agent::dra::ServerOptions().atOnce);
  const auto prepare = [&](const agent::ClaimRef& claim) { return node.preparer.prepare(claim, {}).status(); };
  const auto unprepare = [&](const agent::ClaimRef& claim) { return node.preparer.unprepare(claim, {}); };
  Splits all;
  double cpu = 0;
  for (auto _ : state) {
    const double before = bench::cpuSeconds();
    const auto came = allAtOnce(queue, node.refs, prepare);
    const double between = bench::cpuSeconds();
    const auto went = allAtOnce(queue, node.refs, unprepare);
    cpu += prepared ? between - before : bench::cpuSeconds() - between;
    const auto& wanted = prepared ? came : went;
    all.insert(all.end(), wanted.begin(), wanted.end());
  }
  show(state, all);
  state.counters["I_cpu_ms"] = cpu * 1000 / static_cast<double>(all.size());  // per claim, the API server's included
}

void Prepare(benchmark::State& state) { measure(state, true); }
void Unprepare(benchmark::State& state) { measure(state, false); }
BENCHMARK(Prepare)->Arg(1)->Iterations(100)->Unit(benchmark::kMillisecond);
BENCHMARK(Prepare)->Arg(30)->Arg(100)->Iterations(10)->Unit(benchmark::kMillisecond);
BENCHMARK(Unprepare)->Arg(1)->Iterations(100)->Unit(benchmark::kMillisecond);
BENCHMARK(Unprepare)->Arg(30)->Arg(100)->Iterations(10)->Unit(benchmark::kMillisecond);

}  // namespace
