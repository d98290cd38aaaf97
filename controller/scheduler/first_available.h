// Claims for which one of several things would do (spec.firstAvailable): the order in which alternatives are tried. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "controller/scheduler/decide.h"

namespace egpu::scheduler {

/// Of one claim's alternatives, in their order, the first that fits, each decided as if it were all that the claim asks
/// for. One decision per alternative that was tried: if one fits, it is the last of them. `decide` gets the alternative's
/// number; if it can't say anything now (nothing), no further one is tried.
std::vector<Decision> decideFirst(std::size_t alternatives,
                                  const std::function<std::optional<Decision>(std::size_t which)>& decide);

/// For claims that go to one node together: one alternative of each, in the order in which such combinations are tried.
/// The last claim gives way first:
///
///   claims of 2 and 3 alternatives    (0 0) (0 1) (0 2) (1 0) (1 1) (1 2)
class Combinations {
 public:
  static constexpr std::size_t kMost = 64;  ///< tried: of more, the rest is left out

  /// How many alternatives each claim has; at least 1.
  explicit Combinations(std::vector<std::size_t> counts) : counts_(std::move(counts)), at_(counts_.size(), 0) {}

  /// How many there are, tried or not; at most kMost.
  std::size_t size() const;
  /// Which alternative of each claim.
  const std::vector<std::size_t>& at() const { return at_; }
  /// To the next one. False: there is none.
  bool next();
  /// That alternative of that claim fits nowhere even by itself: combinations with it are passed over from now on.
  void ruleOut(std::size_t claim, std::size_t alternative) { hopeless_.insert({claim, alternative}); }

 private:
  bool count();
  bool hopeless() const;

  std::vector<std::size_t> counts_, at_;
  std::set<std::pair<std::size_t, std::size_t>> hopeless_;
  std::size_t tried_ = 1;
};

}  // namespace egpu::scheduler
