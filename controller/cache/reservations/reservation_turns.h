// How long nodes may be reserved for owners that are never served: for kReservationAtMost in all, and then for as long
// not at all. Time without a reservation counts backwards.
//
//   used 24 h                        rests for 24 h, then begins anew
//   used 10 h, 4 h without, 5 h      11 h are used
//
// An owner is a claim, a namespace, or the gangs of a namespace. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace egpu::cache {

class ReservationTurns {
 public:
  static constexpr int64_t kReservationAtMost = 86'400;  ///< seconds

  /// The owner had a reservation from `from` to `to`. Reservations at the same time count once.
  void use(const std::string& owner, int64_t from, int64_t to);
  /// So many seconds of the owner don't count: their reservation served its purpose.
  void giveBack(std::string_view owner, int64_t seconds);
  void forget(std::string_view owner);
  /// Until when the owner may have no reservation; nothing if it may have one now.
  std::optional<int64_t> restsUntil(std::string_view owner, int64_t now);
  std::size_t size() const { return turns_.size(); }

 private:
  struct Turn {
    int64_t used = 0;    ///< seconds
    int64_t until = 0;   ///< when that was so
    bool rests = false;  ///< until it is zero
  };
  std::map<std::string, Turn, std::less<>> turns_;  ///< none whose time has counted back to zero, as of the last call
};

}  // namespace egpu::cache
