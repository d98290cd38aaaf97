#include "controller/allocator/reservation_budget.h"

#include <algorithm>

namespace egpu::allocator {

void ReservationBudget::use(const std::string& owner, int64_t from, int64_t to) {
  auto& usage = usages_[owner];
  usage.until = std::min(usage.until, to);  // the clock may be set back
  const auto idle = std::max<int64_t>(0, from - usage.until);
  const auto begin = std::max(from, usage.until);
  usage.used = std::min(std::max<int64_t>(0, usage.used - idle) + to - begin, kMaxReservationTime);
  usage.until = to;
}

void ReservationBudget::giveBack(std::string_view owner, int64_t seconds) {
  const auto known = usages_.find(owner);
  if (known != usages_.end() && !known->second.isPaused)
    known->second.used = std::max<int64_t>(0, known->second.used - seconds);
}

void ReservationBudget::forget(std::string_view owner) {
  if (const auto known = usages_.find(owner); known != usages_.end()) usages_.erase(known);
}

std::optional<int64_t> ReservationBudget::pausedUntil(std::string_view owner, int64_t now) {
  for (auto it = usages_.begin(); it != usages_.end();) {
    auto& usage = it->second;
    usage.until = std::min(usage.until, now);
    it = now - usage.until >= usage.used ? usages_.erase(it) : std::next(it);
  }
  const auto known = usages_.find(owner);
  if (known == usages_.end()) return std::nullopt;
  auto& usage = known->second;
  usage.isPaused = usage.isPaused || usage.used >= kMaxReservationTime;
  return usage.isPaused ? std::optional(usage.until + usage.used) : std::nullopt;
}

}  // namespace egpu::allocator
