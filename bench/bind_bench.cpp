// Measures claims bound per second by the real controller against the embedded API server over loopback. The same run
// also sends the same five writes per claim raw. Both sides use the same client; the raw side has neither watches nor
// decisions. real_bench.cpp measures this against a real API server.
#include <benchmark/benchmark.h>

#include <memory>

#include "bench/binding.h"
#include "controller/base/log.h"
#include "controller/http/http.h"
#include "controller/standalone/apiserver/server.h"

namespace {

using namespace egpu;

constexpr int kClaims = 2'000;
constexpr int kInFlight = 16;

/// Each world has uids of its own, because the plugin is loaded once and remembers the devices of earlier worlds.
struct BindWorld {
  explicit BindWorld(uint64_t seed) : random{seed} { site.publish(kClaims); }

  base::SystemClock clock;
  base::Random random;
  std::unique_ptr<apiserver::Server> server = bench::must(apiserver::Server::create({}, clock, random));
  std::unique_ptr<http::Listener> listener = bench::must(http::listen("127.0.0.1:0", *server));
  bench::BindingSite site{endpoint()};

  kube::Endpoint endpoint() const {
    kube::Endpoint made;
    made.server = "http://" + listener->address();
    return made;
  }
};

/// The two measurements alternate, so that a noisy neighbour affects both.
void ClaimsBound(benchmark::State& state) {
  base::log::configure(base::log::Level::warn, false);
  double bound = 0, raw = 0;
  int64_t rounds = 0;
  uint64_t worlds = 0;
  for (auto _ : state) {
    {
      BindWorld world(++worlds);
      bound += kClaims / bench::bindAll(world.site, kClaims, kInFlight);
    }
    {
      BindWorld world(++worlds);
      raw += kClaims / bench::rawBindAll(world.site, kInFlight);
    }
    ++rounds;
  }
  const auto n = static_cast<double>(rounds);
  state.counters["claims_per_s"] = bound / n;
  state.counters["raw_claims_per_s"] = raw / n;
  state.counters["ratio"] = bound / raw;
}
BENCHMARK(ClaimsBound)->Iterations(3)->Unit(benchmark::kSecond);

}  // namespace
