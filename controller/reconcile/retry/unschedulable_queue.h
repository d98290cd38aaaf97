// Claims, pods and gangs that found no capacity on the cards or in their quotas. When capacity is freed, those that it
// may suit are evaluated one after the other: the highest priority first, then the oldest.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/core/meta.h"
#include "controller/allocator/allocator.h"
#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/reconcile/timeouts.h"

namespace egpu::reconcile {

/// Age of an object in queue order: older objects come first, objects of the same second by uid.
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

/// Requests of a key, any of which would do. For a pod or a gang those of its first claim, because all of its claims
/// need capacity. Empty: any freed capacity may suit it.
struct CapacityNeeds {
  std::vector<allocator::Allocator::SchedulingRequest> anyOf{};
  std::string device{};       ///< device that the claim names, which needs capacity in quotas only
  std::string refusedIn{};    ///< namespace whose quotas refused the claim: only a new version of them may suit
  uint64_t refusedUnder = 0;  ///< version of the quotas that refused the claim
};

/// Thread-safe. Calls `mayFit` of next() with the lock held.
///
/// A round begins whenever capacity may have been freed, on a card or in a quota. It gives a turn to each key that the
/// capacity may suit, in queue order; the next key gets its turn when this one has decided. During a round, a key that
/// is evaluated without a turn yields to keys before it that may still get one, so that they find the freed capacity.
/// Afterwards the other keys are evaluated, a few at a time (kMaxEvaluations), to keep their messages up to date.
class UnschedulableQueue {
 public:
  /// Once this many keys of a namespace in a row found nothing during one round, keys of other namespaces do not yield
  /// to it: the capacity does not suit its nodes or quotas, and thousands of its keys would delay the other keys.
  static constexpr std::size_t kMaxFailedAttempts = 32;
  /// Number of keys without a turn that are evaluated at a time, at intervals of Timeouts::explainInterval. If no more
  /// keys are queued, each gets a turn.
  static constexpr std::size_t kMaxEvaluations = 32;
  static constexpr std::size_t kKeysAtOnce = 512;  ///< considered by one call of next()

  UnschedulableQueue(base::Clock& clock, const Timeouts& timeouts) : clock_(clock), timeouts_(timeouts) {}

  struct Admission {
    bool isGranted = false;  ///< false: the key must yield, and gets a turn in this round
    /// Releases that grew() has announced, if other keys come before this one: for the requests that are decided now
    /// (allocator::QueueOrder::releases). Capacity released from now on belongs to those keys first.
    std::optional<uint64_t> releases{};
  };
  /// Adds the queue key of a claim, pod or gang of that age. Call before deciding, so that capacity freed from then on
  /// requeues it.
  Admission add(const std::string& queueKey, const Age& age, int64_t priority = 0, CapacityNeeds needs = {});
  void remove(const std::string& queueKey);
  std::size_t size() const;

  /// Begins a round, or repeats the present one from its first key: capacity may have been freed. releases: number of
  /// releases by then (allocator::Allocator::releases()).
  void grew(uint64_t releases);
  struct NextKeys {
    std::vector<std::string> keys;  ///< keys to enqueue: the one that has the turn, or those to be evaluated
    std::optional<std::chrono::milliseconds> again;  ///< time of the next call of next(); nullopt: after grew()
  };
  NextKeys next(const std::function<bool(const CapacityNeeds&)>& mayFit);
  /// Result of a key's decision in its turn. unknown: its step ended without a decision.
  enum class DecisionResult { capacity, nothing, unknown };
  /// Records that the key has decided, or that its step ended. True if it had the turn: call next().
  bool decided(const std::string& queueKey, DecisionResult found);
  bool isCurrent(const std::string& queueKey) const;

  /// True if the claim's message may be written now: explainInterval has passed since the last one. Records it.
  bool mayExplain(const std::string& claimUid);
  void forgetClaim(const std::string& claimUid);
  std::size_t claims() const;

 private:
  using Steady = base::Clock::Steady;
  using Position = std::pair<QueueOrder, std::string>;  ///< the string is the queue key
  struct PendingKey {
    QueueOrder order;
    CapacityNeeds needs;
    bool yields = false;
    uint64_t round = 0;  ///< round of its last evaluation
    Steady evaluatedAt{};
  };
  struct CurrentKey {
    Position at;
    Steady since{};
    uint64_t round = 0;  ///< round that gave the turn
    bool begun = false;  ///< a step of the key began after the turn was given
  };
  void beginRound() EGPU_REQUIRES(mutex_);
  std::set<Position>::const_iterator unvisited() const EGPU_REQUIRES(mutex_);
  bool isBeforeOthers(const Position& at) const EGPU_REQUIRES(mutex_);
  /// True if the key yields to the other one, which comes first.
  bool yieldsTo(const std::string& other, const std::string& queueKey) const EGPU_REQUIRES(mutex_);
  /// Gives the next key its turn. False: no further key of this round gets one, or kKeysAtOnce were considered.
  bool selectNext(const std::function<bool(const CapacityNeeds&)>& mayFit, NextKeys& result) EGPU_REQUIRES(mutex_);
  /// Selects the keys that were evaluated longest ago, of those not evaluated during this round.
  void selectForEvaluation(NextKeys& result) EGPU_REQUIRES(mutex_);

  base::Clock& clock_;
  const Timeouts& timeouts_;
  mutable base::Mutex mutex_;
  std::map<std::string, PendingKey> keys_ EGPU_GUARDED_BY(mutex_);  ///< by queue key
  std::set<Position> keysInOrder_ EGPU_GUARDED_BY(mutex_);          ///< keys of keys_, in queue order
  bool inRound_ EGPU_GUARDED_BY(mutex_) = false;
  bool passedOver_ EGPU_GUARDED_BY(mutex_) = false;         ///< a key was skipped because of its backoff
  std::optional<Steady> repeatAt_ EGPU_GUARDED_BY(mutex_);  ///< start of the round that follows for skipped keys
  uint64_t round_ EGPU_GUARDED_BY(mutex_) = 0;
  uint64_t releases_ EGPU_GUARDED_BY(mutex_) = 0;            ///< announced by grew()
  std::optional<Position> visited_ EGPU_GUARDED_BY(mutex_);  ///< last key considered in this round
  std::optional<CurrentKey> current_ EGPU_GUARDED_BY(mutex_);
  /// Number of unsuccessful turns in a row, by namespace.
  std::map<std::string, std::size_t, std::less<>> failedAttempts_ EGPU_GUARDED_BY(mutex_);
  /// Namespaces of keys that lost their turn in this round.
  std::set<std::string, std::less<>> late_ EGPU_GUARDED_BY(mutex_);
  std::map<std::string, Steady> lastAttempts_ EGPU_GUARDED_BY(mutex_);  ///< time of the last turn, by queue key
  std::map<std::string, Steady> yieldsSince_ EGPU_GUARDED_BY(mutex_);   ///< by queue key, until the round ends
  std::optional<Steady> nextEvaluations_ EGPU_GUARDED_BY(mutex_);       ///< nullopt: no key is to be evaluated
  std::map<std::string, Steady> explained_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::reconcile
