// The protocol of the published results: pods arrive in order, each is tried once, nobody leaves, who fails is dropped.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/openb/trace.h"

namespace egpu::bench::openb {

/// Where a pod is.
struct Seat {
  std::size_t node = 0;            ///< its rank
  std::vector<std::size_t> cards;  ///< of that node, from 0
};

/// Where a pod may go.
struct Where {
  std::optional<std::size_t> only;             ///< this node's rank, or nowhere
  std::function<bool(std::size_t node)> open;  ///< null: every node
  bool allows(std::size_t node) const { return (!only || *only == node) && (!open || open(node)); }
};

/// Who places the pods. Pods are those of its trace.
class Placer {
 public:
  virtual ~Placer() = default;
  /// A pod is there, and will be tried: for who learns what is asked for.
  virtual void arrives(const Pod&) {}
  /// Where it would go; nothing: it does not fit.
  virtual std::optional<Seat> choose(const Pod& pod, const Where& where) = 0;
  /// `id` is the pod's own while it is there.
  virtual void take(const Pod& pod, uint64_t id, const Seat& seat) = 0;
  virtual void giveBack(const Pod& pod, uint64_t id, const Seat& seat) = 0;
};

/// The sizes that figures are told for: without cards, a part of one, up to so many whole ones; the last: more than 4.
inline constexpr std::array<const char*, 6> kSizes = {"cpu", "share", "1", "2", "4", "8"};
std::size_t sizeOf(const Pod& pod);

struct Result {
  static constexpr std::size_t kPoints = 131;
  /// Allocated % by arrived %, 0 … 130: the mean over the arrivals at which arrived % rounds to it. Nothing where there
  /// was none.
  std::array<std::optional<double>, kPoints> allocated;
  std::optional<double> firstFailure;           ///< arrived % at it
  std::array<int64_t, kSizes.size()> failed{};  ///< pods, by size
  double seconds = 0;                           ///< of processor time
};

/// Both in milli-cards of all there are.
Result replay(const Trace& trace, Placer& placer);

/// One line of JSON, without the newline; a point at which nothing arrived, and no failure, are null.
std::string toJson(const std::string& policy, const Result& result, std::size_t decisions, bool withCurve);
/// A number in JSON; nothing is null.
std::string jsonNumber(std::optional<double> value, const char* format);

}  // namespace egpu::bench::openb
