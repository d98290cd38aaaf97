// Claims, pods and gangs that found no room on the cards or in their quotas. When room becomes free, those that it may
// suit look for it one after the other: the highest priority first, then the oldest.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/core/meta.h"
#include "controller/base/clock.h"
#include "controller/cache/cluster_view.h"

namespace egpu::reconcile {

/// Whose turn it is: older objects first, those of the same second by uid.
struct Age {
  std::string created, uid;
  auto operator<=>(const Age&) const = default;
};
inline Age ageOf(const core::ObjectMeta& metadata) { return {metadata.creationTimestamp, metadata.uid}; }

/// Position in the queue: the highest priority first, then the oldest.
struct QueueOrder {
  int64_t behind = 0;  ///< −priority
  Age age;
  auto operator<=>(const QueueOrder&) const = default;
};

/// What a key looks for room for: what a claim asks for, of which any will do. The first claim of a pod or a gang,
/// because all of them need room. Without any: room for anything may suit it.
struct RoomNeeds {
  std::vector<cache::ClusterView::Ask> anyOf{};
  std::string device{};       ///< name of the device that the claim names, which needs room in quotas alone
  std::string refusedIn{};    ///< namespace whose quotas refused the claim: only another version of them may suit
  uint64_t refusedUnder = 0;  ///< version of the quotas that refused it
};

/// Thread-safe. `mayFit` of next() is called with the lock held.
///
/// A round begins whenever room may have become free on a card or in a quota. It gives each key that the room may suit a turn, in queue order;
/// the next key has its turn once this one has decided. A key that looks for room by itself during a round yields to
/// keys before it that may still have a turn, so that they find what became free. The other keys look afterwards, a few
/// at a time (kLooksAtOnce), so that their messages stay true.
class WaitingForRoom {
 public:
  static constexpr std::chrono::milliseconds kExplainEvery{15'000};
  /// A key whose step does not begin for so long loses its turn, and those of its namespace are not waited for in this
  /// round: its steps hang.
  static constexpr std::chrono::milliseconds kTurnAtMost{100};
  /// A key yields for so long, and then decides.
  static constexpr std::chrono::milliseconds kYieldAtMost{50};
  /// Once so many keys of a namespace in a row found nothing during one round, keys of other namespaces do not yield to
  /// it: the room does not suit its nodes or its quotas, and thousands of its keys would delay them.
  static constexpr std::size_t kVainTurns = 32;
  /// A key that decided in vain gets no other turn for so long, so that rounds that follow each other reach all keys.
  static constexpr std::chrono::milliseconds kTurnAgain{250};
  /// So many keys that had no turn look every kExplainEvery. If no more keys wait, each has a turn.
  static constexpr std::size_t kLooksAtOnce = 32;
  static constexpr std::size_t kKeysAtOnce = 512;  ///< considered by one call of next()

  explicit WaitingForRoom(base::Clock& clock) : clock_(clock) {}

  /// This queue key, of a claim or pod so old. Noted before it looks for room: what is freed from then on is not
  /// missed. False: it yields, and looks later; it gets a turn in this round.
  bool add(const std::string& queueKey, const Age& age, int64_t priority = 0, RoomNeeds needs = {});
  /// Whether the key keeps what it decided although capacity was freed after add(): false if a key before it may be
  /// served by that. It gives the decision up then, and yields as after add().
  bool keepsRoom(const std::string& queueKey);
  void remove(const std::string& queueKey);
  std::size_t size() const;

  /// Room may have become free: a round begins, or the present one is repeated from its first key.
  void grew();
  struct Next {
    std::vector<std::string> keys;                   ///< to be stepped: the one that has the turn, or those that look
    std::optional<std::chrono::milliseconds> again;  ///< time until next() is to be called again; none: grew() tells
  };
  Next next(const std::function<bool(const RoomNeeds&)>& mayFit);
  /// What a key found in its turn. unknown: its step ended without a decision.
  enum class Found { room, nothing, unknown };
  /// The key has decided, or its step ended. True if it had the turn: next() is to be called.
  bool decided(const std::string& queueKey, Found found);
  bool hasTurn(const std::string& queueKey) const;

  /// The explanation of a claim's NoFit may be written again only kExplainEvery after the last one: true = now (and noted).
  bool mayExplain(const std::string& claimUid);
  void forgetClaim(const std::string& claimUid);
  std::size_t claims() const;

 private:
  using Steady = base::Clock::Steady;
  using Position = std::pair<QueueOrder, std::string>;  ///< the string is the queue key
  struct Entry {
    QueueOrder order;
    RoomNeeds needs;
    bool yields = false;
    bool yielded = false;  ///< for kYieldAtMost: it decides now
    uint64_t round = 0;    ///< the round during which it looked last
    Steady lookedAt{};
  };
  struct Turn {
    Position at;
    Steady since{};
    uint64_t round = 0;  ///< the round that gave it
    bool begun = false;  ///< the key's step began after it, or looks after it
  };
  // With mutex_ held.
  void beginRound();
  std::set<Position>::const_iterator unvisited() const;
  bool isBeforeOthers(const Position& at) const;
  /// Whether the key yields to the other one, which comes first.
  bool yieldsTo(const std::string& other, const std::string& queueKey) const;
  /// Gives the next key its turn. False: no further key of this round gets one, or kKeysAtOnce were considered.
  bool giveTurn(const std::function<bool(const RoomNeeds&)>& mayFit, Next& result);
  /// Those that looked longest ago, of those that have not looked during this round.
  void giveLooks(Next& result);

  base::Clock& clock_;
  mutable std::mutex mutex_;                   // guards all below
  std::map<std::string, Entry> keys_;          ///< by queue key
  std::set<Position> keysInOrder_;             ///< the same
  bool inRound_ = false, passedOver_ = false;  ///< passedOver_: a key, because of kTurnAgain
  std::optional<Steady> repeatAt_;             ///< the round that follows because of those
  uint64_t round_ = 0;
  std::optional<Position> visited_;  ///< of this round, the last key considered
  std::optional<Turn> turn_;
  std::map<std::string, std::size_t, std::less<>> vain_;  ///< turns in vain since one that found room, by namespace
  std::set<std::string, std::less<>> late_;               ///< namespaces of keys that lost their turn in this round
  std::map<std::string, Steady> hadTurn_;                 ///< in vain, by queue key; for kTurnAgain
  std::map<std::string, Steady> yieldsSince_;             ///< by queue key, until the round ends
  std::optional<Steady> nextLooks_;                       ///< none: no key waits for a look
  std::map<std::string, Steady> explained_;
};

}  // namespace egpu::reconcile
