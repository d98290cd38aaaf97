// The allocation map: every node → card → claims with amounts, what is free, phases; as JSON, as backend.ai's map, as bars for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace egpu::server {

/// Core in milli-cards, memory in bytes; used and claims are the charged amounts, as the ledger has them.
struct MapClaim {
  std::string claim;   ///< "namespace/name"
  std::string device;  ///< object name
  std::string phase;   ///< the device's: Pending | Available | Bound | Released | Failed; empty if unknown
  int64_t core = 0;
  int64_t memory = 0;
};
struct MapCard {
  std::string name, uuid, model, phase, reason;
  int64_t index = 0;
  bool healthy = true;
  int64_t core = 0, memory = 0;          ///< capacity
  int64_t usedCore = 0, usedMemory = 0;  ///< Σ claims
  std::vector<MapClaim> claims;          ///< by claim
};
struct MapNode {
  std::string name;
  bool schedulable = true;
  std::vector<MapCard> cards;  ///< by index
};
struct AllocationMap {
  std::vector<MapNode> nodes;  ///< by name
};

/// {"nodes":[{"name","schedulable","cards":[{…,"free":{"core","memory"},"claims":[…]}]}],"totals":{…}}
std::string toJson(const AllocationMap& map);
/// uuid → allocated share of the card's core as a decimal string ("0.80"), as backend.ai's gpu_alloc_map has it.
std::string toBackendAi(const AllocationMap& map);

struct TextOptions {
  bool color = false;    ///< ANSI colours, one per claim
  std::size_t bar = 30;  ///< cells of a bar, 10 to 200
  std::string node;      ///< only this node; empty = all
};
/// A table of bars. Runs of empty cards of one model take one line.
std::string toText(const AllocationMap& map, const TextOptions& options);

}  // namespace egpu::server
