// Expiry of Events: they are removed an hour after their last write, as on a real API server (--event-ttl).
#pragma once

#include <atomic>
#include <chrono>

#include "controller/base/clock.h"
#include "controller/standalone/apiserver/kinds/resource.h"
#include "controller/standalone/apiserver/storage/store.h"
#include "controller/standalone/apiserver/verbs/deletion.h"

namespace egpu::apiserver {

/// Thread-safe. References must outlive it.
class EventExpiry {
 public:
  static constexpr std::chrono::hours kTtl{1};
  static constexpr std::chrono::minutes kSweepInterval{1};
  /// Maximum number of Events that one sweep removes: each is a write, and a request waits for the sweep. The next
  /// request removes more.
  static constexpr std::size_t kMaxRemoved = 200;

  EventExpiry(const ResourceTable& table, Store& store, Deletion& deletion, base::Clock& clock);
  /// Called with each request for a resource. Removes Events that have expired, at most every kSweepInterval.
  void onRequest(const Resource& resource);

 private:
  using Ticks = base::Clock::Steady::rep;
  void sweep(base::Clock::Steady now);

  const Resource* const events_;
  Store& store_;
  Deletion& deletion_;
  base::Clock& clock_;
  std::atomic<Ticks> next_{0};  ///< when the next sweep is due
};

}  // namespace egpu::apiserver
