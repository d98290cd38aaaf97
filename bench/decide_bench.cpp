// B1: measures the cost of a decision as the cluster grows. Clusters of 8-card nodes start in the u pattern (card c of
// node i has (7i + 13c) mod 10 tenths used). Claims of core 10 + i mod 40 %, memory 6 of 32 GiB then fill them to the
// wanted level. Each round releases random claims until the next one has capacity, decides for it and commits the
// decision. Rounds are timed one by one. The times cover the whole decision, including the strings of the answer and
// learning from the request.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/decide.h"

namespace egpu::scheduler {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kGi = int64_t{1} << 30;
constexpr int64_t kCardsPerNode = 8;
constexpr int64_t kMemory = 32 * kGi;

/// Text of a uid of realistic length, so that no code profits from short strings.
std::string uid(uint64_t n) {
  char text[64];
  std::snprintf(text, sizeof text, "%08x-5e1f-4a3c-9b2d-%012llx", static_cast<unsigned>(n * 2654435761u),
                static_cast<unsigned long long>(n & 0xffffffffffff));
  return text;
}

/// Bytes that malloc has handed out.
double allocatedBytes() {
  const auto info = mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

/// A cluster at a fill level, and its claims.
class Workload {
 public:
  struct Claim {
    std::string device;
    std::vector<std::string> cards;
    int64_t core = 0;
  };

  Workload(int64_t nodes, int64_t fillPercent) : target_(nodes * kCardsPerNode * 10 * fillPercent) {
    const double before = allocatedBytes();
    for (int64_t i = 0; i < nodes; ++i) {
      char name[32];
      std::snprintf(name, sizeof name, "node-%06lld", static_cast<long long>(i));
      cluster_.upsertNode({name, true});
      for (int64_t c = 0; c < kCardsPerNode; ++c) {
        CardInfo info;
        info.card.uuid = "GPU-" + uid(static_cast<uint64_t>(i * kCardsPerNode + c));
        info.name = "gpu-" + info.card.uuid.substr(4);
        info.card.nodeName = name;
        info.card.index = c;
        info.card.model = "Tesla-V100-SXM2-32GB";
        info.card.memory = kMemory;
        cluster_.upsertCard(info);
      }
    }
    bytesPerCard_ = (allocatedBytes() - before) / static_cast<double>(nodes * kCardsPerNode);
    for (int64_t i = 0; i < nodes; ++i) {
      for (int64_t c = 0; c < kCardsPerNode; ++c) {
        const int64_t tenths = (7 * i + 13 * c) % 10;
        if (tenths == 0) continue;
        Claim claim{"base-" + uid(next_++), {"gpu-" + uid(static_cast<uint64_t>(i * kCardsPerNode + c))}, tenths * 100};
        cluster_.take(claim.cards[0], claim.device, {claim.core, kMemory / 10 * tenths});
        used_ += claim.core;
        claims_.push_back(std::move(claim));
      }
    }
    // Fills up to the target; near the top the larger claims no longer fit.
    for (int failures = 0; used_ < target_ && failures < 400;)
      failures = place(nextRequest("binpack", "binpack")) ? 0 : failures + 1;
  }

  /// Releases claims until the next request keeps the cluster at the fill level. Releases at least one if the last
  /// request did not fit, so that fragments do not block a small cluster.
  void freeCapacityFor(const Request& next) {
    for (bool again = failed_; (again || used_ + next.perCard.core > target_) && !claims_.empty(); again = false) {
      random_ = random_ * 6364136223846793005u + 1442695040888963407u;
      const std::size_t at = static_cast<std::size_t>((random_ >> 33) % claims_.size());
      std::swap(claims_[at], claims_.back());
      for (const std::string& card : claims_.back().cards) cluster_.giveBack(card, claims_.back().device);
      used_ -= claims_.back().core;
      claims_.pop_back();
    }
  }

  Request nextRequest(const char* nodePolicy, const char* cardPolicy) {
    Request request;
    request.perCard = {(10 + static_cast<int64_t>(asked_++ % 40)) * 10, 6 * kGi};
    request.nodePolicy = nodePolicy;
    request.cardPolicy = cardPolicy;
    return request;
  }

  void commit(const Decision& decision, const std::string& device) {
    for (const Placement& p : decision.placements) cluster_.take(p.ref(), device, p.charged);
  }
  void note(const Decision& decision, const std::string& device) {
    failed_ = !decision.fits;
    if (failed_) return;
    Claim claim{device, {}, 0};
    for (const Placement& p : decision.placements) {
      claim.cards.push_back(p.card);
      claim.core += p.charged.core;
    }
    used_ += claim.core;
    claims_.push_back(std::move(claim));
  }
  std::string nextDevice() { return uid(next_++); }

  Decision observeAndDecide(const Request& request) {
    cluster_.observe(request);
    return decide(cluster_, request);
  }

  bool place(const Request& request) {
    const Decision decision = observeAndDecide(request);
    failed_ = !decision.fits;
    if (failed_) return false;
    const std::string device = nextDevice();
    commit(decision, device);
    note(decision, device);
    return true;
  }

  double bytesPerCard() const { return bytesPerCard_; }
  double fill() const { return static_cast<double>(used_) / static_cast<double>(cluster_.cardCount()) / 10; }

 private:
  Cluster cluster_;
  std::vector<Claim> claims_;
  int64_t target_;
  int64_t used_ = 0;
  bool failed_ = false;
  double bytesPerCard_ = 0;
  uint64_t next_ = 0;
  uint64_t asked_ = 0;
  uint64_t random_ = 42;
};

struct Made {
  std::unique_ptr<Workload> workload;
  double bytesPerCard = 0;
};

/// Creates the start state of a size and fill level once; each benchmark changes a copy of it.
const Made& start(int64_t nodes, int64_t fill) {
  static std::map<std::pair<int64_t, int64_t>, Made> made;
  Made& m = made[{nodes, fill}];
  if (!m.workload) {
    for (auto it = made.begin(); it != made.end();)  // keeps only one: 100k nodes are large
      it = it->second.workload && it->first.first != nodes ? made.erase(it) : std::next(it);
    Made& fresh = made[{nodes, fill}];
    fresh.workload = std::make_unique<Workload>(nodes, fill);
    fresh.bytesPerCard = fresh.workload->bytesPerCard();
  }
  return made[{nodes, fill}];
}

double quantile(std::vector<uint32_t>& sorted, double q) {
  if (sorted.empty()) return 0;
  return static_cast<double>(sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))]);
}

/// p50 and p99 of decide + commit by (policies, fill, nodes), for the growth printed at the end.
std::map<std::tuple<std::string, int64_t, int64_t>, std::pair<double, double>>& results() {
  static std::map<std::tuple<std::string, int64_t, int64_t>, std::pair<double, double>> all;
  return all;
}

void decideAndCommit(benchmark::State& state, const char* nodePolicy, const char* cardPolicy) {
  const int64_t nodes = state.range(0), fill = state.range(1);
  const Made& made = start(nodes, fill);
  Workload w = *made.workload;
  // Warms up the copy: it is cold and was filled under binpack, and the policy under test must shape the state.
  for (int i = 0; i < 20'000; ++i) {
    const Request request = w.nextRequest(nodePolicy, cardPolicy);
    w.freeCapacityFor(request);
    w.place(request);
  }
  std::vector<uint32_t> decided, committed, released;
  auto nanos = [](Clock::duration d) {
    return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(d).count());
  };
  for (auto _ : state) {
    const Request request = w.nextRequest(nodePolicy, cardPolicy);
    const auto t0 = Clock::now();
    w.freeCapacityFor(request);
    const auto t1 = Clock::now();
    const std::string device = w.nextDevice();
    const auto t2 = Clock::now();
    const Decision decision = w.observeAndDecide(request);
    const auto t3 = Clock::now();
    if (decision.fits) w.commit(decision, device);
    const auto t4 = Clock::now();
    w.note(decision, device);
    released.push_back(nanos(t1 - t0));
    decided.push_back(nanos(t3 - t2));
    if (decision.fits) committed.push_back(nanos(t4 - t2));  // a request that does not fit takes a tenth of the time
  }
  for (auto* samples : {&decided, &committed, &released}) std::sort(samples->begin(), samples->end());
  state.counters["decide_p50_ns"] = quantile(decided, 0.5);
  state.counters["decide_p99_ns"] = quantile(decided, 0.99);
  state.counters["p50_ns"] = quantile(committed, 0.5);
  state.counters["p99_ns"] = quantile(committed, 0.99);
  state.counters["release_p50_ns"] = quantile(released, 0.5);
  state.counters["fits_%"] = 100.0 * static_cast<double>(committed.size()) / static_cast<double>(decided.size());
  state.counters["fill_%"] = w.fill();
  state.counters["B/card"] = made.bytesPerCard;
  results()[{std::string(nodePolicy) + "/" + cardPolicy, fill, nodes}] = {quantile(committed, 0.5),
                                                                          quantile(committed, 0.99)};
}

void sizes(benchmark::internal::Benchmark* b) {
  for (int64_t nodes : {100, 1'000, 10'000, 100'000})
    for (int64_t fill : {50, 95}) b->Args({nodes, fill});
  b->ArgNames({"nodes", "fill"})->Iterations(100'000)->Unit(benchmark::kMicrosecond);
}
BENCHMARK_CAPTURE(decideAndCommit, binpack_binpack, "binpack", "binpack")->Apply(sizes);
BENCHMARK_CAPTURE(decideAndCommit, binpack_spread, "binpack", "spread")->Apply(sizes);
BENCHMARK_CAPTURE(decideAndCommit, spread_binpack, "spread", "binpack")->Apply(sizes);
BENCHMARK_CAPTURE(decideAndCommit, spread_spread, "spread", "spread")->Apply(sizes);

void smallerSizes(benchmark::internal::Benchmark* b) {
  for (int64_t nodes : {100, 1'000, 10'000})
    for (int64_t fill : {50, 95}) b->Args({nodes, fill});
  b->ArgNames({"nodes", "fill"})->Iterations(20'000)->Unit(benchmark::kMicrosecond);
}
BENCHMARK_CAPTURE(decideAndCommit, fragmentation_binpack, "fragmentation", "binpack")->Apply(smallerSizes);

void printGrowth() {
  std::printf(
      "\ndecide + commit, growth from 1,000 to 100,000 nodes, and the slope of log time over log nodes from the "
      "smallest size\n");
  std::map<std::pair<std::string, int64_t>, std::map<int64_t, std::pair<double, double>>> series;
  for (const auto& [key, value] : results()) series[{std::get<0>(key), std::get<1>(key)}][std::get<2>(key)] = value;
  for (const auto& [key, bySize] : series) {
    auto slope = [&](auto which) {
      double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
      for (const auto& [nodes, times] : bySize) {
        const double x = std::log(static_cast<double>(nodes)), y = std::log(std::max(1.0, which(times)));
        n += 1, sx += x, sy += y, sxx += x * x, sxy += x * y;
      }
      return n < 2 ? 0 : (n * sxy - sx * sy) / (n * sxx - sx * sx);
    };
    auto ratio = [&](auto which) {
      auto a = bySize.find(1'000), b = bySize.find(100'000);
      return a == bySize.end() || b == bySize.end() ? 0 : which(b->second) / which(a->second);
    };
    auto p50 = [](const auto& t) { return t.first; };
    auto p99 = [](const auto& t) { return t.second; };
    std::printf("  %-16s %2lld %% full: p50 x%.2f (exponent %.3f), p99 x%.2f (exponent %.3f)\n", key.first.c_str(),
                static_cast<long long>(key.second), ratio(p50), slope(p50), ratio(p99), slope(p99));
  }
}

}  // namespace
}  // namespace egpu::scheduler

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  egpu::scheduler::printGrowth();
  return 0;
}
