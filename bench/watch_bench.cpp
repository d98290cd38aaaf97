// Measures the decoding of watches and lists: bytes per second from JSON text to indexed state.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <vector>

#include "bench/samples.h"
#include "controller/cache/sinks.h"
#include "controller/cache/stores.h"
#include "controller/codec/codec.h"
#include "controller/kube/line_framer.h"

namespace {

using namespace egpu;

/// A claim as a real API server sends it: managedFields are nearly half of the bytes.
std::string objectText(int64_t n) {
  std::string json = codec::encode(bench::claim(n));
  static const std::string managed =
      R"("managedFields":[{"manager":"kubectl-client-side-apply","operation":"Update",)"
      R"("apiVersion":"elasticgpu.io/v1alpha",)"
      R"("time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},)"
      R"("f:app":{},"f:team":{}}},)"
      R"("f:spec":{".":{},"f:egpuClassName":{},"f:resources":{".":{},"f:requests":{".":{}}}}}},{)"
      R"("manager":"elastic-gpu-controller",)"
      R"("operation":"Update","apiVersion":"elasticgpu.io/v1alpha","time":"2026-01-02T03:04:06Z",)"
      R"("fieldsType":"FieldsV1",)"
      R"("fieldsV1":{"f:metadata":{"f:finalizers":{}},"f:spec":{"f:elasticGPUName":{}}}}],)";
  const auto at = json.find("\"metadata\":{") + 12;
  return json.insert(at, managed);
}

void DecodeWatch(benchmark::State& state) {
  std::string stream;
  for (int64_t n = 0; n < 5'000; ++n) stream += R"({"type":"MODIFIED","object":)" + objectText(n) + "}\n";
  for (auto _ : state) {
    cache::Stores stores;
    cache::StoreSink<v1alpha::ElasticGPUClaim> sink(stores.claims);
    kube::LineFramer framer;
    codec::WatchEvent<v1alpha::ElasticGPUClaim> event;  // reused for all events, as in the reflector
    std::size_t events = 0;
    // 16 KiB at a time, as the transport delivers it.
    for (std::size_t at = 0; at < stream.size(); at += 16'384)
      if (!framer.feed(std::string_view(stream).substr(at, 16'384), [&](std::string_view line) {
            if (!codec::decodeWatchEvent(line, event).ok()) std::abort();
            sink.apply(std::move(event));
            ++events;
            return true;
          }))
        std::abort();
    if (stores.claims.size() != 5'000) std::abort();
    benchmark::DoNotOptimize(events);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * stream.size()));
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * 5'000);
}
BENCHMARK(DecodeWatch)->Unit(benchmark::kMillisecond);

void DecodeList(benchmark::State& state) {
  std::string list = R"({"apiVersion":"elasticgpu.io/v1alpha","items":[)";
  for (int64_t n = 0; n < 5'000; ++n) list += (n ? "," : "") + objectText(n);
  list += R"(],"kind":"ElasticGPUClaimList","metadata":{"resourceVersion":"77"}})";
  for (auto _ : state) {
    std::vector<v1alpha::ElasticGPUClaim> all;
    auto meta = codec::decodeList<v1alpha::ElasticGPUClaim>(
        list, [&](v1alpha::ElasticGPUClaim&& c) { all.push_back(std::move(c)); });
    if (!meta || all.size() != 5'000) std::abort();
    benchmark::DoNotOptimize(all.data());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * list.size()));
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * 5'000);
}
BENCHMARK(DecodeList)->Unit(benchmark::kMillisecond);

}  // namespace
