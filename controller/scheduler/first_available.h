// Order in which the alternatives of claims (spec.firstAvailable) are tried. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "controller/scheduler/decide.h"

namespace egpu::scheduler {

/// Tries a claim's alternatives in their order until one fits. `decide` gets an alternative's index and decides as if
/// the claim had no other. Returns one decision per alternative that was tried; if one fits, it is the last. Stops
/// early if `decide` returns nullopt, because no decision is possible now.
std::vector<Decision> decideFirst(std::size_t alternatives,
                                  const std::function<std::optional<Decision>(std::size_t which)>& decide);

/// Iterates over combinations of one alternative of each claim, for claims that are placed on one node together. The
/// last claim's alternative changes first:
///
///   claims of 2 and 3 alternatives    (0 0) (0 1) (0 2) (1 0) (1 1) (1 2)
class Combinations {
 public:
  static constexpr std::size_t kMax = 64;  ///< combinations that are tried; further ones are ignored

  /// `counts`: number of alternatives of each claim, at least 1.
  explicit Combinations(std::vector<std::size_t> counts) : counts_(std::move(counts)), at_(counts_.size(), 0) {}

  /// Product of the numbers of alternatives; at most kMax.
  std::size_t size() const;
  /// Index of the current alternative of each claim.
  const std::vector<std::size_t>& at() const { return at_; }
  /// Advances to the next combination. Returns false if there is none.
  bool next();
  /// Skips combinations with this alternative from now on, because it fits nowhere even by itself.
  void ruleOut(std::size_t claim, std::size_t alternative) { unschedulable_.insert({claim, alternative}); }

 private:
  bool advance();
  bool hasUnschedulable() const;

  std::vector<std::size_t> counts_, at_;
  std::set<std::pair<std::size_t, std::size_t>> unschedulable_;
  std::size_t tried_ = 1;
};

}  // namespace egpu::scheduler
