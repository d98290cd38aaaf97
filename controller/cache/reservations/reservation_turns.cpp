#include "controller/cache/reservations/reservation_turns.h"

#include <algorithm>

namespace egpu::cache {

void ReservationTurns::use(const std::string& owner, int64_t from, int64_t to) {
  auto& turn = turns_[owner];
  turn.until = std::min(turn.until, to);  // the clock may be set back
  const auto idle = std::max<int64_t>(0, from - turn.until);
  const auto begin = std::max(from, turn.until);
  turn.used = std::min(std::max<int64_t>(0, turn.used - idle) + to - begin, kMaxReservationTime);
  turn.until = to;
}

void ReservationTurns::giveBack(std::string_view owner, int64_t seconds) {
  const auto known = turns_.find(owner);
  if (known != turns_.end() && !known->second.rests)
    known->second.used = std::max<int64_t>(0, known->second.used - seconds);
}

void ReservationTurns::forget(std::string_view owner) {
  if (const auto known = turns_.find(owner); known != turns_.end()) turns_.erase(known);
}

std::optional<int64_t> ReservationTurns::restsUntil(std::string_view owner, int64_t now) {
  for (auto it = turns_.begin(); it != turns_.end();) {
    auto& turn = it->second;
    turn.until = std::min(turn.until, now);
    it = now - turn.until >= turn.used ? turns_.erase(it) : std::next(it);
  }
  const auto known = turns_.find(owner);
  if (known == turns_.end()) return std::nullopt;
  auto& turn = known->second;
  turn.rests = turn.rests || turn.used >= kMaxReservationTime;
  return turn.rests ? std::optional(turn.until + turn.used) : std::nullopt;
}

}  // namespace egpu::cache
