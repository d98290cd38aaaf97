// Measures the memory of caches: heap bytes per claim, per claim with its device and per card, including indexes and
// scheduler state. The target is 2 KiB per claim with its device.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include "bench/samples.h"
#include "controller/allocator/allocator.h"
#include "controller/cache/stores.h"

namespace {

using namespace egpu;

std::size_t heap() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

void MemoryPerClaim(benchmark::State& state) {
  const int64_t count = 100'000;
  double perClaim = 0;
  for (auto _ : state) {
    cache::Stores stores;
    const auto before = heap();
    for (int64_t n = 0; n < count; ++n) stores.claims.informed(bench::claim(n));
    perClaim = static_cast<double>(heap() - before) / static_cast<double>(count);
  }
  state.counters["bytes_per_claim"] = perClaim;
}
BENCHMARK(MemoryPerClaim)->Unit(benchmark::kMillisecond)->Iterations(3);

void MemoryPerPair(benchmark::State& state) {
  const int64_t count = 100'000;
  double perPair = 0;
  for (auto _ : state) {
    cache::Stores stores;
    const auto before = heap();
    for (int64_t n = 0; n < count; ++n) {
      stores.claims.informed(bench::claim(n));
      stores.devices.informed(bench::device(n));
    }
    perPair = static_cast<double>(heap() - before) / static_cast<double>(count);
  }
  state.counters["bytes_per_claim_and_device"] = perPair;
}
BENCHMARK(MemoryPerPair)->Unit(benchmark::kMillisecond)->Iterations(3);

/// Pairs as a controller has them: on cards with ledgers, four to a card, and in the scheduler's state. The memory of
/// the cards alone is measured separately.
void MemoryPerPlacedPair(benchmark::State& state) {
  const int64_t count = 100'000;
  double perPair = 0;
  for (auto _ : state) {
    cache::Stores stores;
    allocator::Allocator view(stores);
    for (int64_t n = 0; n < count / 4; ++n) {
      auto card = bench::card(7'000'000 + n);
      card.spec.allocations.clear();
      stores.cards.informed(card);
    }
    const auto before = heap();
    for (int64_t n = 0; n < count; ++n) {
      stores.claims.informed(bench::claim(n));
      stores.devices.informed(bench::device(n));
    }
    for (int64_t n = 0; n < count / 4; ++n) {
      auto card = bench::card(7'000'000 + n);
      card.metadata.resourceVersion += "0";
      card.spec.allocations.clear();
      for (int64_t k = 0; k < 4; ++k) {
        const auto device = bench::device(n * 4 + k);
        card.spec.allocations[device.metadata.uid] = {
            device.metadata.name, device.spec.claimRef->namespace_ + "/" + device.spec.claimRef->name, 250,
            int64_t{8} << 30};
      }
      stores.cards.informed(card);
    }
    if (view.allocationMap().totals().allocations != count) state.SkipWithError("the devices are not on the cards");
    perPair = static_cast<double>(heap() - before) / static_cast<double>(count);
  }
  state.counters["bytes_per_placed_claim_and_device"] = perPair;
}
BENCHMARK(MemoryPerPlacedPair)->Unit(benchmark::kMillisecond)->Iterations(3);

void MemoryPerCard(benchmark::State& state) {
  const int64_t count = 50'000;
  double perCard = 0;
  for (auto _ : state) {
    cache::Stores stores;
    allocator::Allocator view(stores);
    const auto before = heap();
    for (int64_t n = 0; n < count; ++n) stores.cards.informed(bench::card(n));
    perCard = static_cast<double>(heap() - before) / static_cast<double>(count);
  }
  state.counters["bytes_per_card_with_4_entries"] = perCard;
}
BENCHMARK(MemoryPerCard)->Unit(benchmark::kMillisecond)->Iterations(3);

}  // namespace
