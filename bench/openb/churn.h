// A trace with departures: pods come and go at the trace's own times, those that find no room wait.
//
// The pods of one trace are far too few to fill its cluster, so copies of the trace run at once: as many as make the
// load, which is Σ over their pods of cards · life ÷ (all cards · the trace's duration). Each copy begins at another
// moment, and goes round: what would come after the trace's end comes at its beginning. So at any moment the same load
// is asked for, but for chance, and what comes together in the trace comes together here.
//
//   at 0          the pods that are there then come first, in the order in which they were made, with what is left of
//                 their lives
//   warm-up       nothing is measured
//   measured      waits of the pods that come, allocated % of the cards
//
// A life begins when the pod is placed. Who waits is tried in the product's order (scheduler/waiting.h) when a node has
// more room than before, and nodes are kept as there. All are of one priority, unless preemption is on.
//
// With preemption, the trace's best effort pods (qos BE) are of lower priority than all others. Who comes or waits and
// fits nowhere has the fewest of them evicted; each is then a new pod that begins anew. With moves, every quarter of an
// hour the first in the order that has waited for ten minutes is let in by the fewest moves of best effort pods of at
// most one card, as `defrag --execute` does. A pod that is moved begins anew as well.
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
  int64_t measured = 3 * 86'400;  ///< likewise, after the warm-up
  int64_t keepAfter = 600;        ///< as scheduler::Keeping::after; negative: no node is kept for anybody
  bool preempts = false;          ///< the placer must be the ledger
  bool moves = false;             ///< likewise
};

struct ChurnResult {
  /// A pod is starved that waited for longer than this, seconds.
  static constexpr int64_t kStarved = 6 * 3600;
  struct OfSize {
    int64_t pods = 0;     ///< that came while it was measured
    int64_t waiting = 0;  ///< of these, at the end; their waits count as long as they have lasted
    int64_t starved = 0;
    double mean = 0, p99 = 0;  ///< of their waits, seconds
  };
  std::array<OfSize, kSizes.size()> sizes;  ///< as kSizes
  double offered = 0;                       ///< % of the cards that all would hold if nobody ever waited
  double allocated = 0;                     ///< % of the cards, mean over time
  std::vector<double> hourly;               ///< the same, hour by hour
  int64_t copies = 0;                       ///< of the trace
  int64_t evicted = 0, moved = 0;           ///< pods, while it was measured
  double lost = 0;     ///< % of the cards' time: what they had worked until they were evicted or moved
  double seconds = 0;  ///< of processor time
};

/// `ledger` holds what is taken and is empty at first; `placer` says where pods go: the ledger itself, or who is told
/// whatever it is told. Which moments the copies begin at follows from the trace's order of arrivals. Throws BadTrace if
/// the trace has no times.
ChurnResult churn(const Trace& trace, Scheduled& ledger, Placer& placer, const ChurnOptions& options);

/// One line of JSON, without the newline.
std::string toJson(const std::string& policy, const ChurnOptions& options, const ChurnResult& result);

}  // namespace egpu::bench::openb
