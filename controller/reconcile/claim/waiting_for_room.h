// Claims and pods that found no room: those of higher priority first, then the oldest.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/core/meta.h"
#include "controller/base/clock.h"

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

/// Thread-safe.
class WaitingForRoom {
 public:
  static constexpr std::chrono::milliseconds kExplainEvery{15'000};

  explicit WaitingForRoom(base::Clock& clock) : clock_(clock) {}

  /// This queue key, of a claim or pod so old. Noted before it looks for room: what is freed from then on is not missed.
  void add(const std::string& queueKey, const Age& age, int64_t priority = 0);
  void remove(const std::string& queueKey);
  /// All that wait, in their order, to be tried again (they stay until removed).
  std::vector<std::string> all() const;
  std::size_t size() const;

  /// The explanation of a claim's NoFit may be written again only kExplainEvery after the last one: true = now (and noted).
  bool mayExplain(const std::string& claimUid);
  void forgetClaim(const std::string& claimUid);
  std::size_t claims() const;

 private:
  base::Clock& clock_;
  mutable std::mutex mutex_;  // guards all below
  std::map<std::string, QueueOrder> keys_;                    ///< by queue key
  std::set<std::pair<QueueOrder, std::string>> keysInOrder_;  ///< the same
  std::map<std::string, base::Clock::Steady> explained_;
};

}  // namespace egpu::reconcile
