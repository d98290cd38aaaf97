// Time budget of node reservations for owners that are never served: kMaxReservationTime in total, then a pause of the
// same length. Time without a reservation reduces the time used.
//
//   used 24 h                           pause of 24 h, then a new budget
//   used 10 h, 4 h without, used 5 h    11 h used
//
// An owner is a claim, a namespace, or the gangs of a namespace. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace egpu::allocator {

class ReservationBudget {
 public:
  static constexpr int64_t kMaxReservationTime = 86'400;  ///< seconds

  /// Records a reservation of the owner from `from` to `to`. Overlapping times count once.
  void use(const std::string& owner, int64_t from, int64_t to);
  /// Gives these seconds back to the owner: the reservation served its purpose.
  void giveBack(std::string_view owner, int64_t seconds);
  void forget(std::string_view owner);
  /// End of the owner's pause; nullopt if the owner may have a reservation now.
  std::optional<int64_t> pausedUntil(std::string_view owner, int64_t now);
  std::size_t size() const { return usages_.size(); }

 private:
  struct TimeUsed {
    int64_t used = 0;       ///< seconds with a reservation, less the time without one since
    int64_t until = 0;      ///< time to which `used` refers
    bool isPaused = false;  ///< in the pause, until `used` has run down to zero
  };
  std::map<std::string, TimeUsed, std::less<>>
      usages_;  ///< without owners whose time had run down to zero at the last call
};

}  // namespace egpu::allocator
