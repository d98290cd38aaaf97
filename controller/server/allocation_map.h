// Renders the allocation map as JSON, as backend.ai's map, and as bars for a terminal. Core in milli-cards, memory in
// bytes, both as charged.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "controller/allocator/allocator.h"
#include "controller/codec/json/text.h"
#include "controller/server/claim_pods.h"

namespace egpu::server {

using allocator::AllocationMap;

/// {"nodes":[{"name","schedulable","cards":[{…,"free":{"core","memory"},"usage":{"memory","smPercent"},
/// "claims":[{…,"usage":{…},"pods":[…]}]}]}],"totals":{…},
/// "remote":[{"device","claim","phase","class","pool","endpoint","pods"}]}
std::string toJson(const AllocationMap& map, const ClaimPods& pods = {});
/// Writes further fields of a card.
using WriteCardFields = std::function<void(codec::JsonText&, const allocator::MapCard&)>;
/// Writes one element of "nodes".
void writeNode(codec::JsonText& j, const allocator::MapNode& node, const ClaimPods& pods,
               const WriteCardFields& more = {});
/// Returns uuid → allocated share of the card's core as a decimal string ("0.80"), the format of backend.ai's
/// gpu_alloc_map.
std::string toBackendAi(const AllocationMap& map);

struct TextOptions {
  bool color = false;         ///< ANSI colours, one per claim
  std::size_t bar = 0;        ///< cells of a bar, 10 to 200; 0 = as many as fit in the line
  std::size_t columns = 100;  ///< maximum length of a line where possible; 0 = unlimited
};
/// Returns a table of bars. A run of empty cards of one model takes one line.
std::string toText(const AllocationMap& map, const TextOptions& options, const ClaimPods& pods = {});

}  // namespace egpu::server
