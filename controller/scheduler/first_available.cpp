#include "controller/scheduler/first_available.h"

#include <algorithm>

namespace egpu::scheduler {

std::vector<Decision> decideFirst(std::size_t alternatives,
                                  const std::function<std::optional<Decision>(std::size_t which)>& decide) {
  std::vector<Decision> tried;
  for (std::size_t i = 0; i < alternatives; ++i) {
    auto decision = decide(i);
    if (!decision) break;
    tried.push_back(*std::move(decision));
    tried.back().alternative = i;
    if (tried.back().fits) break;
  }
  return tried;
}

std::size_t Combinations::size() const {
  std::size_t product = 1;
  for (const std::size_t count : counts_) product = std::min(kMax, product * count);
  return product;
}

bool Combinations::advance() {
  for (std::size_t claim = at_.size(); claim-- > 0;) {
    if (++at_[claim] < counts_[claim]) return true;
    at_[claim] = 0;
  }
  return false;
}

bool Combinations::hasUnschedulable() const {
  for (std::size_t claim = 0; claim < at_.size(); ++claim)
    if (unschedulable_.contains({claim, at_[claim]})) return true;
  return false;
}

bool Combinations::next() {
  if (tried_ == kMax) return false;
  do {
    if (!advance()) return false;
  } while (hasUnschedulable());
  ++tried_;
  return true;
}

}  // namespace egpu::scheduler
