// Exponential backoff: the time without attempts after a failure, which doubles with each failure in a row.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"

namespace egpu::base {

/// Returns the backoff after that many failures in a row: `first` after one, then twice as long each time, at most
/// `max`. 0 after none.
inline std::chrono::milliseconds exponentialBackoff(std::chrono::milliseconds first, int failures,
                                                    std::chrono::milliseconds max) {
  if (failures <= 0) return std::chrono::milliseconds(0);
  auto backoff = first;
  for (int i = 1; i < failures && backoff < max; ++i) backoff *= 2;
  return std::min(backoff, max);
}

/// Returns the backoff after one of that length; `first` after none (0).
inline std::chrono::milliseconds nextBackoff(std::chrono::milliseconds before, std::chrono::milliseconds first,
                                             std::chrono::milliseconds max) {
  return before.count() == 0 ? first : std::min(2 * before, max);
}

/// Backoffs by key. Thread-safe; the clock must outlive it. In memory only.
template <class Key = std::string>
class Backoff {
 public:
  /// free: number of failures of a key that are not followed by a backoff.
  Backoff(Clock& clock, std::chrono::milliseconds first, std::chrono::milliseconds max, int free = 0)
      : clock_(clock), first_(first), max_(max), free_(free) {}

  /// Begins the key's next backoff, after a failure.
  void next(const Key& key) EGPU_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    auto& entry = entries_[key];
    ++entry.failures;
    entry.since = clock_.now();
  }
  /// Returns the rest of the key's backoff, rounded up; 0: an attempt may be made.
  std::chrono::milliseconds remaining(const Key& key) const EGPU_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto entry = entries_.find(key);
    return entry == entries_.end() ? std::chrono::milliseconds(0) : restOf(entry->second);
  }
  bool inBackoff(const Key& key) const { return remaining(key).count() > 0; }
  /// Forgets the failures of the key: it has succeeded, or is gone.
  void reset(const Key& key) EGPU_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    entries_.erase(key);
  }
  /// Forgets keys whose backoff ended longer ago than the longest backoff lasts.
  void collectGarbage() EGPU_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::erase_if(entries_, [this](const auto& each) {
      return clock_.now() - each.second.since > exponentialBackoff(first_, each.second.failures - free_, max_) + max_;
    });
  }
  std::size_t size() const EGPU_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return entries_.size();
  }

 private:
  struct BackoffEntry {
    int failures = 0;  ///< in a row
    Clock::Steady since{};
  };
  std::chrono::milliseconds restOf(const BackoffEntry& entry) const {
    const auto end = entry.since + exponentialBackoff(first_, entry.failures - free_, max_);
    const auto now = clock_.now();
    return now < end ? std::chrono::ceil<std::chrono::milliseconds>(end - now) : std::chrono::milliseconds(0);
  }

  Clock& clock_;
  const std::chrono::milliseconds first_, max_;
  const int free_;
  mutable Mutex mutex_;
  std::map<Key, BackoffEntry> entries_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::base
