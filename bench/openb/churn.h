// Replays a trace with departures: pods arrive and depart at the trace's own times; pods that do not fit wait.
//
// The pods of one trace are far too few to fill its cluster, so several copies of the trace run at once. The number of
// copies follows from the load: Σ over their pods of cards · life ÷ (all cards · the trace's duration). Each copy
// starts at a different moment and wraps around: arrivals after the trace's end are moved to its beginning. Thus the
// expected load is constant, and pods that arrive together in the trace arrive together here.
//
//   at 0          pods that already exist arrive first, in the order of their creation, with the rest of their
//                 lives
//   warm-up       nothing is measured
//   measured      waits of the pods that arrive, allocated % of the cards
//
// A life begins when the pod is placed. When capacity of a node is freed, waiting pods are tried in the product's order
// (scheduler/queue_order.h). Nodes are reserved as in the product. All pods have one priority, unless preemption is on.
//
// With preemption, the trace's best effort pods (qos BE) have a lower priority than all others. For a pod that fits
// nowhere, the fewest best effort pods are evicted; each of them starts over as a new pod. With moves, every quarter of
// an hour the first pod in the order that has waited for ten minutes is placed by the fewest moves of best effort pods
// of at most one card, as `defrag --execute` does. A moved pod starts over, too.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/openb/replay.h"
#include "bench/openb/scheduled.h"

namespace egpu::bench::openb {

struct ChurnOptions {
  double load = 1;                ///< of all cards
  int64_t warmUp = 86'400;        ///< seconds
  int64_t measured = 3 * 86'400;  ///< seconds after the warm-up
  int64_t reserveAfter = 600;     ///< seconds, as scheduler::ReservationLimits::after; negative: no nodes are reserved
  bool preempts = false;          ///< requires that the placer is the ledger
  bool moves = false;             ///< requires that the placer is the ledger
};

struct ChurnResult {
  /// A pod that waits for longer than this is starved. In seconds.
  static constexpr int64_t kStarved = 6 * 3600;
  struct OfSize {
    int64_t pods = 0;     ///< that arrived while it was measured
    int64_t waiting = 0;  ///< those of `pods` that still wait at the end; their waits so far count
    int64_t starved = 0;
    double mean = 0, p99 = 0;  ///< waits of `pods`, in seconds
  };
  std::array<OfSize, kSizes.size()> sizes;  ///< indexed as kSizes
  double offered = 0;                       ///< % of the cards in use if no pod ever waited
  double allocated = 0;                     ///< % of the cards, mean over time
  std::vector<double> hourly;               ///< `allocated` of each hour
  int64_t copies = 0;                       ///< of the trace
  int64_t evicted = 0, moved = 0;           ///< pods, while it was measured
  double lost = 0;                          ///< % of the cards' time: work of pods before their eviction or move
  double seconds = 0;                       ///< of processor time
};

/// `ledger` holds the allocations and is empty at first. `placer` chooses the nodes: the ledger itself, or a placer
/// that gets the same calls. The trace's order of arrivals determines when the copies start. Throws BadTrace if the
/// trace has no times.
ChurnResult churn(const Trace& trace, Scheduled& ledger, Placer& placer, const ChurnOptions& options);

/// Returns one line of JSON, without the newline.
std::string toJson(const std::string& policy, const ChurnOptions& options, const ChurnResult& result);

}  // namespace egpu::bench::openb
