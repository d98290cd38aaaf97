#include "bench/openb/replay.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "controller/base/text.h"

namespace egpu::bench::openb {

std::size_t sizeOf(const TracePod& pod) {
  if (pod.cards == 0) return 0;
  if (pod.milli < 1000) return 1;
  if (pod.cards <= 2) return static_cast<std::size_t>(pod.cards) + 1;
  return pod.cards <= 4 ? 4 : 5;
}

std::string jsonNumber(std::optional<double> value, const char* format) {
  if (!value) return "null";
  char text[64];
  std::snprintf(text, sizeof text, format, *value);
  return text;
}

Result replay(const Trace& trace, Placer& placer) {
  Result result;
  double capacity = 0, arrived = 0, used = 0;
  uint64_t id = 0;
  for (const TraceNode& node : trace.nodes) capacity += 1000 * static_cast<double>(node.cards);
  std::array<double, Result::kPoints> sums{};
  std::array<int64_t, Result::kPoints> counts{};
  const std::clock_t start = std::clock();  // processor time of this process: other work on the machine does not count
  for (const std::size_t at : trace.arrivals) {
    const TracePod& pod = trace.pods[at];
    const double milli = static_cast<double>(pod.milli * pod.cards);
    arrived += milli;
    placer.arrives(pod);
    if (const auto seat = placer.choose(pod, {})) {
      placer.take(pod, id++, *seat);
      used += milli;
    } else {
      ++result.failed[sizeOf(pod)];
      if (!result.firstFailure) result.firstFailure = 100 * arrived / capacity;
    }
    const auto point = static_cast<std::size_t>(std::lround(100 * arrived / capacity));
    if (point >= Result::kPoints) continue;
    sums[point] += 100 * used / capacity;
    ++counts[point];
  }
  for (std::size_t i = 0; i < Result::kPoints; ++i)
    if (counts[i] > 0) result.allocated[i] = sums[i] / static_cast<double>(counts[i]);
  result.seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return result;
}

std::string toJson(const std::string& policy, const Result& result, std::size_t decisions, bool withCurve) {
  std::string out = "{\"policy\": " + base::quoted(policy);
  for (const std::size_t point : {95, 100, 130})
    out += ", \"alloc" + std::to_string(point) + "\": " + jsonNumber(result.allocated[point], "%.4f");
  out += ", \"first_failure\": " + jsonNumber(result.firstFailure, "%.4f") + ", \"failed\": {";
  for (std::size_t i = 0; i < kSizes.size(); ++i)
    out += (i > 0 ? ", " : "") + base::quoted(kSizes[i]) + ": " + std::to_string(result.failed[i]);
  out +=
      "}, \"decisions_per_s\": " + jsonNumber(static_cast<double>(decisions) / std::max(result.seconds, 1e-9), "%.0f");
  if (withCurve) {
    out += ", \"curve\": [";
    for (std::size_t i = 0; i < Result::kPoints; ++i)
      out += (i > 0 ? ", " : "") + jsonNumber(result.allocated[i], "%.3f");
    out += "]";
  }
  return out + "}";
}

}  // namespace egpu::bench::openb
