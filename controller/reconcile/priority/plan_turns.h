// Claims that wait until victims may be searched for them. One search is made at a time, and each is followed by a rest,
// so the claims take turns: the highest priority first, then the oldest.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "controller/base/clock.h"
#include "controller/reconcile/claim/waiting_for_room.h"

namespace egpu::reconcile {

/// Thread-safe. The clock must outlive it.
class PlanTurns {
 public:
  /// A claim that has made no search for so long loses its turn.
  static constexpr std::chrono::milliseconds kTurnAtMost{250};

  explicit PlanTurns(base::Clock& clock) : clock_(clock) {}

  /// The claim waits for its turn. order: with the claim's uid. queueKey: key whose step makes the search.
  void wait(const QueueOrder& order, const std::string& queueKey);
  /// A search was made for the claim, or none is needed any more. True: another may have the turn.
  bool done(const std::string& claimUid);

  struct Next {
    std::optional<std::string> queueKey;  ///< has the turn from now on
    std::optional<std::chrono::milliseconds>
        again;  ///< time until next() is to be called again; none: wait() or done() tells
  };
  /// rest: time for which no search may be made.
  Next next(std::chrono::milliseconds rest);
  bool hasTurn(const std::string& queueKey) const;

 private:
  using Position = std::pair<QueueOrder, std::string>;  ///< the string is the queue key
  struct Turn {
    Position at;
    base::Clock::Steady since{};
  };
  void erase(const std::string& claimUid);  // with mutex_ held

  base::Clock& clock_;
  mutable std::mutex mutex_;  // guards all below
  std::set<Position> inOrder_;
  std::map<std::string, Position> positions_;  ///< the same by uid of the claim
  std::optional<Turn> turn_;
};

}  // namespace egpu::reconcile
