// What a node has free, in 64 bytes: the bound that the index keeps beside every node and every subtree. Internal to
// scheduler/.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace egpu::scheduler {

/// Each number is an upper bound when several nodes are taken together (elementwise maximum). 0 means "no card" or
/// "overdrawn"; everything else is 1 + the amount in steps of a Scale, rounded down, up to 255.
///
/// A card fits if it has the core *and* the memory; two maxima alone would let the core of one card stand in for
/// another's. So there are two staircases: the most memory where there is so much core, and the most core where there
/// is so much memory.
struct alignas(64) Summary {
  static constexpr std::size_t kCoreSteps = 11;    ///< tenths of the largest card; the last one is that of a free card
  static constexpr std::size_t kMemorySteps = 40;  ///< of a Scale
  static constexpr std::size_t kMemoryAt = 0;      ///< + core step: most memory on a card that has it free
  static constexpr std::size_t kCoreAt = kMemoryAt + kCoreSteps;     ///< + memory step: most core likewise
  static constexpr std::size_t kCoreRanks = kCoreAt + kMemorySteps;  ///< core of the 2nd, 4th card by free core
  static constexpr std::size_t kMemoryRank = kCoreRanks + 2;         ///< memory of the 2nd card by free memory
  static constexpr std::size_t kEmpty = kMemoryRank + 1;             ///< cards nobody holds
  static constexpr std::size_t kNodeClaims = kEmpty + 1;             ///< kMost − claims on the node
  static constexpr std::size_t kCardClaims = kNodeClaims + 1;        ///< kMost − claims on the card with the fewest
  static constexpr std::size_t kNodeCpu = kCardClaims + 1;           ///< coarse()
  static constexpr std::size_t kNodeMemory = kNodeCpu + 1;           ///< coarse()
  static constexpr std::size_t kFreeCore = kNodeMemory + 1;          ///< Σ over the cards, coarse()
  static constexpr std::size_t kUsedScore = kFreeCore + 1;           ///< NodeLoad::used() of load_score.h; wide
  static constexpr std::size_t kAvailableScore = kUsedScore + 2;     ///< NodeLoad::available(); wide
  static constexpr std::size_t kCount = kAvailableScore + 2;
  static constexpr int64_t kMost = 255;
  static constexpr int64_t kCoreUnit = 10;                        ///< milli-cards
  static constexpr int64_t kCpuUnit = 100;                        ///< thousandths
  static constexpr int64_t kNodeMemoryUnit = int64_t{256} << 20;  ///< bytes
  static_assert(kCount == 64);

  std::array<uint8_t, kCount> at{};

  static uint8_t clamped(int64_t n) { return static_cast<uint8_t>(std::clamp<int64_t>(n, 0, kMost)); }
  /// Node resources span orders of magnitude: exact below 16 units, then four digits of the binary number.
  static uint8_t coarse(int64_t amount, int64_t unit) {
    if (amount < 0) return 0;
    const uint64_t n = static_cast<uint64_t>(amount / unit);
    if (n < 16) return static_cast<uint8_t>(n + 1);
    const int shift = std::bit_width(n) - 5;
    return clamped(1 + 16 * (shift + 1) + static_cast<int64_t>((n >> shift) & 15));
  }

  /// A number of two bytes: exact for a node. The maximum of each byte is a bound of several nodes, too.
  int32_t wide(std::size_t number) const { return at[number] * 256 + at[number + 1]; }
  void setWide(std::size_t number, int64_t value) {
    value = std::clamp<int64_t>(value, 0, 65'535);
    at[number] = static_cast<uint8_t>(value >> 8);
    at[number + 1] = static_cast<uint8_t>(value & 255);
  }

  void raise(const Summary& other) {
    for (std::size_t i = 0; i < kCount; ++i) at[i] = std::max(at[i], other.at[i]);
  }
  /// Whether no number is below the other's.
  bool reaches(const Summary& least) const {
    // Lanes of two words, so that the compiler needs no reduction over bytes.
    using Lanes = uint8_t __attribute__((vector_size(16)));
    using Words = uint64_t __attribute__((vector_size(16)));
    Words all{~uint64_t{0}, ~uint64_t{0}};
    for (std::size_t i = 0; i < kCount; i += sizeof(Lanes)) {
      Lanes has, needs;
      std::memcpy(&has, &at[i], sizeof has);
      std::memcpy(&needs, &least.at[i], sizeof needs);
      all &= reinterpret_cast<Words>(has >= needs);
    }
    return (all[0] & all[1]) == ~uint64_t{0};
  }
  bool operator==(const Summary&) const = default;
};
static_assert(sizeof(Summary) == 64);

/// How the summaries of a mix count: memory in powers of two, so that the sizes people ask for fall on a step.
struct Scale {
  uint8_t coreShift = 2;      ///< a unit is 2^coreShift milli-cards
  uint8_t memoryShift = 28;   ///< a unit is 2^memoryShift bytes
  uint8_t memoryStep = 4;     ///< a step is 2^memoryStep units
  uint32_t coreSteps = 2622;  ///< steps per unit, in 65,536ths: a tenth of the largest card is a step

  static Scale forCards(int64_t largestCore, int64_t largestMemory) {
    Scale scale{0, 0, 0, 0};
    while ((largestCore >> scale.coreShift) >= Summary::kMost) ++scale.coreShift;
    const auto units = static_cast<uint32_t>(std::max<int64_t>(largestCore >> scale.coreShift, kLastCore));
    scale.coreSteps = 65'536 * kLastCore / units + 1;
    // A free card may be one unit too large to count, and one step.
    while ((largestMemory >> scale.memoryShift) > Summary::kMost + 1) ++scale.memoryShift;
    while ((largestMemory >> scale.memoryShift >> scale.memoryStep) > kLastMemory + 1) ++scale.memoryStep;
    return scale;
  }
  uint8_t core(int64_t n) const { return n < 0 ? uint8_t{0} : Summary::clamped(1 + (n >> coreShift)); }
  uint8_t memory(int64_t n) const { return n < 0 ? uint8_t{0} : Summary::clamped(1 + (n >> memoryShift)); }
  /// The step at or below what core() or memory() returned; not of 0.
  std::size_t stepOfCore(uint8_t core) const { return std::min<uint32_t>((core - 1u) * coreSteps >> 16, kLastCore); }
  std::size_t stepOfMemory(uint8_t memory) const {
    return std::min<uint32_t>((memory - 1u) >> memoryStep, kLastMemory);
  }

 private:
  static constexpr uint32_t kLastCore = Summary::kCoreSteps - 1;
  static constexpr uint32_t kLastMemory = Summary::kMemorySteps - 1;
};

}  // namespace egpu::scheduler
