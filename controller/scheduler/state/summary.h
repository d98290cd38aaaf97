// Free capacity of a node in 64 bytes: the bound that the index stores for every node and subtree. Internal to
// scheduler/.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace egpu::scheduler {

/// Each number becomes an upper bound when several nodes are combined (elementwise maximum). 0 means "no card" or
/// "overdrawn"; other values are 1 + the amount in units of a Scale, rounded down, up to 255.
///
/// A card fits only if it has both the core and the memory. With two maxima alone, one card's core could be combined
/// with another card's memory. Therefore there are two staircases: the maximum memory by minimum core, and the maximum
/// core by minimum memory.
struct alignas(64) Summary {
  static constexpr std::size_t kCoreSteps = 11;    ///< tenths of the largest card; the last step is an empty card
  static constexpr std::size_t kMemorySteps = 40;  ///< steps of a Scale
  static constexpr std::size_t kMemoryAt = 0;      ///< + core step: maximum memory of a card with that core free
  static constexpr std::size_t kCoreAt = kMemoryAt + kCoreSteps;     ///< + memory step: maximum core on a card with it
  static constexpr std::size_t kCoreRanks = kCoreAt + kMemorySteps;  ///< core of the 2nd, 4th card by free core
  static constexpr std::size_t kMemoryRank = kCoreRanks + 2;         ///< memory of the 2nd card by free memory
  static constexpr std::size_t kEmpty = kMemoryRank + 1;             ///< number of cards without holders
  static constexpr std::size_t kNodeClaims = kEmpty + 1;             ///< kMax − claims on the node
  static constexpr std::size_t kCardClaims = kNodeClaims + 1;        ///< kMax − claims on the card with the fewest
  static constexpr std::size_t kNodeCpu = kCardClaims + 1;           ///< coarse()
  static constexpr std::size_t kNodeMemory = kNodeCpu + 1;           ///< coarse()
  static constexpr std::size_t kFreeCore = kNodeMemory + 1;          ///< sum over the cards, coarse()
  static constexpr std::size_t kUsedScore = kFreeCore + 1;           ///< NodeLoad::used() of load_score.h; wide
  static constexpr std::size_t kAvailableScore = kUsedScore + 2;     ///< NodeLoad::available(); wide
  static constexpr std::size_t kCount = kAvailableScore + 2;
  static constexpr int64_t kMax = 255;
  static constexpr int64_t kCoreUnit = 10;                        ///< milli-cards
  static constexpr int64_t kCpuUnit = 100;                        ///< thousandths
  static constexpr int64_t kNodeMemoryUnit = int64_t{256} << 20;  ///< bytes
  static_assert(kCount == 64);

  std::array<uint8_t, kCount> at{};

  static uint8_t clamped(int64_t n) { return static_cast<uint8_t>(std::clamp<int64_t>(n, 0, kMax)); }
  /// Encodes node resources, which span orders of magnitude: exact below 32 units, then five significant binary digits.
  static uint8_t coarse(int64_t amount, int64_t unit) {
    if (amount < 0) return 0;
    const uint64_t n = static_cast<uint64_t>(amount / unit);
    if (n < 16) return static_cast<uint8_t>(n + 1);
    const int shift = std::bit_width(n) - 5;
    return clamped(1 + 16 * (shift + 1) + static_cast<int64_t>((n >> shift) & 15));
  }

  /// A number of two bytes, exact for a node. The maximum of each byte is also a bound of several nodes.
  int32_t wide(std::size_t number) const { return at[number] * 256 + at[number + 1]; }
  void setWide(std::size_t number, int64_t value) {
    value = std::clamp<int64_t>(value, 0, 65'535);
    at[number] = static_cast<uint8_t>(value >> 8);
    at[number + 1] = static_cast<uint8_t>(value & 255);
  }

  void raise(const Summary& other) {
    for (std::size_t i = 0; i < kCount; ++i) at[i] = std::max(at[i], other.at[i]);
  }
  /// True if no number is less than the other's.
  bool reaches(const Summary& least) const {
    // Lanes of two words avoid a reduction over bytes.
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

/// Units and steps of the summaries of a mix. Memory units are powers of two, so that common sizes are exact steps.
struct Scale {
  uint8_t coreShift = 2;      ///< a unit is 2^coreShift milli-cards
  uint8_t memoryShift = 28;   ///< a unit is 2^memoryShift bytes
  uint8_t memoryStep = 4;     ///< a step is 2^memoryStep units
  uint32_t coreSteps = 2622;  ///< steps per unit, in 65,536ths: a step is a tenth of the largest card

  static Scale forCards(int64_t largestCore, int64_t largestMemory) {
    Scale scale{0, 0, 0, 0};
    while ((largestCore >> scale.coreShift) >= Summary::kMax) ++scale.coreShift;
    const auto units = static_cast<uint32_t>(std::max<int64_t>(largestCore >> scale.coreShift, kLastCore));
    scale.coreSteps = 65'536 * kLastCore / units + 1;
    // An empty card may exceed the last unit and the last step by one.
    while ((largestMemory >> scale.memoryShift) > Summary::kMax + 1) ++scale.memoryShift;
    while ((largestMemory >> scale.memoryShift >> scale.memoryStep) > kLastMemory + 1) ++scale.memoryStep;
    return scale;
  }
  uint8_t core(int64_t n) const { return n < 0 ? uint8_t{0} : Summary::clamped(1 + (n >> coreShift)); }
  uint8_t memory(int64_t n) const { return n < 0 ? uint8_t{0} : Summary::clamped(1 + (n >> memoryShift)); }
  /// Return the step at or below a result of core() or memory(), which must not be 0.
  std::size_t stepOfCore(uint8_t core) const { return std::min<uint32_t>((core - 1u) * coreSteps >> 16, kLastCore); }
  std::size_t stepOfMemory(uint8_t memory) const {
    return std::min<uint32_t>((memory - 1u) >> memoryStep, kLastMemory);
  }

 private:
  static constexpr uint32_t kLastCore = Summary::kCoreSteps - 1;
  static constexpr uint32_t kLastMemory = Summary::kMemorySteps - 1;
};

}  // namespace egpu::scheduler
