// The protocol of the published results: pods arrive in order, each is tried once, nobody leaves, who fails is dropped.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/openb/trace.h"

namespace egpu::bench::openb {

/// Who places the pods.
class Placer {
 public:
  virtual ~Placer() = default;
  /// Whether the pod was placed, and what it takes is gone.
  virtual bool place(const Pod& pod) = 0;
};

struct Result {
  static constexpr std::size_t kPoints = 131;
  /// Allocated % by arrived %, 0 … 130: the mean over the arrivals at which arrived % rounds to it. Nothing where there
  /// was none.
  std::array<std::optional<double>, kPoints> allocated;
  std::optional<double> firstFailure;                          ///< arrived % at it
  int64_t failedCpu = 0;                                       ///< pods without cards
  int64_t failedShare = 0;                                     ///< of a part of one card
  int64_t failed1 = 0, failed2 = 0, failed4 = 0, failed8 = 0;  ///< of up to so many whole cards; 8: of more than 4
  double seconds = 0;                                          ///< in place()
};

/// Both in milli-cards of all there are.
Result replay(const Trace& trace, Placer& placer);

/// One line of JSON, without the newline; a point at which nothing arrived, and no failure, are null.
std::string toJson(const std::string& policy, const Result& result, std::size_t decisions, bool withCurve);

}  // namespace egpu::bench::openb
