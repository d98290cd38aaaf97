// Replays a trace by the protocol of the published results: pods arrive in order, each is tried once, a pod that does
// not fit is dropped, and no pod departs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/openb/trace.h"

namespace egpu::bench::openb {

/// Node and cards of a placed pod.
struct Seat {
  std::size_t node = 0;            ///< the node's rank
  std::vector<std::size_t> cards;  ///< indexes of cards on that node, from 0
};

/// Nodes on which a pod may be placed.
struct Where {
  std::optional<std::size_t> only;             ///< if set, only the node with this rank
  std::function<bool(std::size_t node)> open;  ///< null: every node
  bool allows(std::size_t node) const { return (!only || *only == node) && (!open || open(node)); }
};

/// Places pods. Pods are passed by reference to the elements of the trace.
class Placer {
 public:
  virtual ~Placer() = default;
  /// Reports that a pod arrived and will be tried. For placers that learn the demand.
  virtual void arrives(const TracePod&) {}
  /// Returns where the pod would be placed, or nothing if it does not fit.
  virtual std::optional<Seat> choose(const TracePod& pod, const Where& where) = 0;
  /// `id` identifies the pod while it is placed.
  virtual void take(const TracePod& pod, uint64_t id, const Seat& seat) = 0;
  virtual void giveBack(const TracePod& pod, uint64_t id, const Seat& seat) = 0;
};

/// Sizes of the figures: no cards, a part of a card, at most that many whole cards. The last size is more than 4 cards.
inline constexpr std::array<const char*, 6> kSizes = {"cpu", "share", "1", "2", "4", "8"};
std::size_t sizeOf(const TracePod& pod);

struct Result {
  static constexpr std::size_t kPoints = 131;
  /// Allocated % by arrived %, 0 … 130: the mean over the arrivals at which arrived % rounds to the index. Nothing
  /// where no arrival rounds to it.
  std::array<std::optional<double>, kPoints> allocated;
  std::optional<double> firstFailure;           ///< arrived % at the first failure
  std::array<int64_t, kSizes.size()> failed{};  ///< pods, by size
  double seconds = 0;                           ///< of processor time
};

/// Both percentages are of the milli-cards of all nodes.
Result replay(const Trace& trace, Placer& placer);

/// Returns one line of JSON, without the newline. Points without an arrival are null, and so is a missing failure.
std::string toJson(const std::string& policy, const Result& result, std::size_t decisions, bool withCurve);
/// Formats a number for JSON; nothing becomes null.
std::string jsonNumber(std::optional<double> value, const char* format);

}  // namespace egpu::bench::openb
