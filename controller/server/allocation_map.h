// The allocation map in three forms: JSON, backend.ai's map, bars for a terminal. Core in milli-cards, memory in bytes,
// both as charged.
#pragma once

#include <cstddef>
#include <string>

#include "controller/cache/cluster_view.h"
#include "controller/server/claim_pods.h"

namespace egpu::server {

using cache::AllocationMap;

/// {"nodes":[{"name","schedulable","cards":[{…,"free":{"core","memory"},"usage":{"memory","smPercent"},"claims":[{…,"usage":{…},
/// "pods":[…]}]}]}],"totals":{…}}
std::string toJson(const AllocationMap& map, const ClaimPods& pods = {});
/// uuid → allocated share of the card's core as a decimal string ("0.80"), as backend.ai's gpu_alloc_map has it.
std::string toBackendAi(const AllocationMap& map);

struct TextOptions {
  bool color = false;         ///< ANSI colours, one per claim
  std::size_t bar = 0;        ///< cells of a bar, 10 to 200; 0 = what the line has room for
  std::size_t columns = 100;  ///< of a line, as far as it can be helped; 0 = as long as need be
};
/// A table of bars. Runs of empty cards of one model take one line.
std::string toText(const AllocationMap& map, const TextOptions& options, const ClaimPods& pods = {});

}  // namespace egpu::server
