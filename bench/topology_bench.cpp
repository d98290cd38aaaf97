// Measures the choice of card sets by their links: by table on a DGX-1 with Volta cards, by search on larger nodes.
// `worse` counts answers whose division or set scores less than the best of all divisions. `gap_%` is the loss that a
// bounded search reports as possible.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "controller/scheduler/topology/wiring.h"
#include "tests/scheduler/topology/nodes.h"

namespace egpu::scheduler::topology {
namespace {

using testing::Random;

constexpr Set kMasks = 256;
constexpr std::size_t kSizes = 8;

PairScores switched(std::size_t cards) {
  PairScores scores(cards);
  for (std::size_t a = 0; a < cards; ++a)
    for (std::size_t b = a + 1; b < cards; ++b) scores.set(a, b, 600);
  return scores;
}

/// All 255 sets of free cards × 8 sizes; the time is per answer.
void everyMaskAndSize(benchmark::State& state) {
  const Wiring wiring(testing::scoresOf(testing::dgx1Volta()));
  int64_t worse = 0;
  for (Set available = 1; available < kMasks; ++available)
    for (std::size_t size = 1; size <= kSizes; ++size) {
      const Choice want = testing::everyDivision(wiring.scores(), {available, size, 0, 0});
      if (scoreOf(wiring.scores(), wiring.best(available, size)) < want.score) ++worse;
      if (wiring.choose({available, size, 0, 0}).total < want.total) ++worse;
    }
  for (auto _ : state)
    for (Set available = 1; available < kMasks; ++available)
      for (std::size_t size = 1; size <= kSizes; ++size) benchmark::DoNotOptimize(wiring.best(available, size));
  const auto answers = static_cast<double>((kMasks - 1) * kSizes);
  state.counters["per_answer"] =
      benchmark::Counter(answers, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["worse"] = static_cast<double>(worse);
}
BENCHMARK(everyMaskAndSize);

/// One-time cost of a topology that was not seen before.
void buildTable(benchmark::State& state) {
  const PairScores scores = testing::scoresOf(testing::dgx1Volta());
  for (auto _ : state) benchmark::DoNotOptimize(Wiring(scores));
}
BENCHMARK(buildTable)->Unit(benchmark::kMicrosecond);

/// All cards are free; links are random.
void randomLinks(benchmark::State& state) {
  Random random(42);
  const auto cards = static_cast<std::size_t>(state.range(0)), size = static_cast<std::size_t>(state.range(1));
  std::vector<std::unique_ptr<const Wiring>> wirings;
  for (int i = 0; i < 8; ++i) wirings.push_back(std::make_unique<const Wiring>(testing::randomScores(random, cards)));
  std::size_t next = 0;
  Choice choice;
  for (auto _ : state) {
    choice = wirings[next++ % wirings.size()]->choose({firstOf(cards), size, 0, 0});
    benchmark::DoNotOptimize(choice);
  }
  state.counters["gap_%"] = 100.0 * static_cast<double>(choice.gap()) / static_cast<double>(choice.bound);
}
BENCHMARK(randomLinks)
    ->ArgNames({"cards", "size"})
    ->ArgsProduct({{14, 16}, {2, 3, 4, 5, 6, 7, 8}})
    ->ArgsProduct({{32, 64}, {2, 4, 8}})
    ->Unit(benchmark::kMicrosecond);

/// Sixteen cards behind NVSwitches: every set is equally good.
void nvSwitch(benchmark::State& state) {
  const Wiring wiring(switched(16));
  for (auto _ : state)
    benchmark::DoNotOptimize(wiring.choose({firstOf(16), static_cast<std::size_t>(state.range(0)), 0, 0}));
}
BENCHMARK(nvSwitch)->ArgName("size")->Arg(2)->Arg(4)->Arg(8);

}  // namespace
}  // namespace egpu::scheduler::topology
