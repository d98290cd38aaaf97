// Computes the index's data about a node.
#include <algorithm>
#include <array>

#include "controller/scheduler/choice/load_score.h"
#include "controller/scheduler/state/fill.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

/// The n highest values, descending, padded with 0.
template <std::size_t n>
struct Highest {
  std::array<uint8_t, n> values{};

  void add(uint8_t value) {
    for (uint8_t& v : values) {
      const uint8_t lower = std::min(v, value);
      v = std::max(v, value);
      value = lower;
    }
  }
};

}  // namespace

Survey Cluster::State::survey(const NodeRecord& node, const Scale& scale) const {
  Survey survey;
  Summary& s = survey.summary;
  uint8_t* memoryAt = &s.at[Summary::kMemoryAt];
  uint8_t* coreAt = &s.at[Summary::kCoreAt];
  Highest<4> cores;
  Highest<2> memories;
  Amount usedSum, capacitySum;
  int64_t empty = 0, fewest = Summary::kMax, freeCore = 0;
  NodeLoad load;
  for (CardId c : node.cards) {
    const CardRecord& card = cards[c];
    if (!card.healthy) continue;
    const Amount capacity = capacityOf(c), used = usedOf(c);
    capacitySum = {capacitySum.core + capacity.core, capacitySum.memory + capacity.memory};
    usedSum = {usedSum.core + used.core, usedSum.memory + used.memory};
    load.add(loadScoreOf(used, capacity));
    const Amount free = card.free();
    freeCore += std::max<int64_t>(free.core, 0);
    const uint8_t core = scale.core(free.core), memory = scale.memory(free.memory);
    cores.add(core);
    memories.add(memory);
    if (core > 0) {
      uint8_t& max = memoryAt[scale.stepOfCore(core)];
      max = std::max(max, memory);
    }
    if (memory > 0) {
      uint8_t& max = coreAt[scale.stepOfMemory(memory)];
      max = std::max(max, core);
    }
    if (card.empty()) ++empty;
    fewest = std::min(fewest, card.claims());
  }
  for (std::size_t i = Summary::kCoreSteps - 1; i-- > 0;) memoryAt[i] = std::max(memoryAt[i], memoryAt[i + 1]);
  for (std::size_t i = Summary::kMemorySteps - 1; i-- > 0;) coreAt[i] = std::max(coreAt[i], coreAt[i + 1]);
  s.at[Summary::kCoreRanks] = cores.values[1];
  s.at[Summary::kCoreRanks + 1] = cores.values[3];
  s.at[Summary::kMemoryRank] = memories.values[1];
  s.at[Summary::kEmpty] = Summary::clamped(empty);
  s.at[Summary::kNodeClaims] = Summary::clamped(Summary::kMax - node.claims);
  s.at[Summary::kCardClaims] = Summary::clamped(Summary::kMax - fewest);
  const NodeAmount left = node.free();
  s.at[Summary::kNodeCpu] = Summary::coarse(left.cpuMilli, Summary::kCpuUnit);
  s.at[Summary::kNodeMemory] = Summary::coarse(left.memory, Summary::kNodeMemoryUnit);
  s.at[Summary::kFreeCore] = Summary::coarse(freeCore, Summary::kCoreUnit);
  s.setWide(Summary::kUsedScore, load.used());
  s.setWide(Summary::kAvailableScore, load.available());
  survey.fill = fillOf(usedSum, capacitySum);
  return survey;
}

}  // namespace egpu::scheduler
