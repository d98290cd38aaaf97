// Clock interface, injected so that tests control time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <stop_token>
#include <string>

#include "controller/base/mutex.h"

namespace egpu::base {

class Clock {
 public:
  using Steady = std::chrono::steady_clock::time_point;
  using Wall = std::chrono::system_clock::time_point;
  virtual ~Clock() = default;
  virtual Steady now() const = 0;  ///< monotonic; for deadlines and backoff
  virtual Wall wall() const = 0;   ///< for timestamps in objects only
  /// Sleeps until `until` or until a stop is requested. Returns false if stopped.
  virtual bool sleepUntil(Steady until, std::stop_token stop) = 0;
  bool sleepFor(std::chrono::milliseconds d, std::stop_token stop) { return sleepUntil(now() + d, stop); }
};

/// Clock of the operating system. Thread-safe.
class SystemClock final : public Clock {
 public:
  Steady now() const override;
  Wall wall() const override;
  bool sleepUntil(Steady until, std::stop_token stop) override;
};

/// Clock that changes only by advance(). Thread-safe.
class ManualClock final : public Clock {
 public:
  Steady now() const override;
  Wall wall() const override;
  bool sleepUntil(Steady until, std::stop_token stop) override;
  void advance(std::chrono::milliseconds d);

 private:
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  Steady now_ EGPU_GUARDED_BY(mutex_){std::chrono::hours(1)};
  Wall wall_ EGPU_GUARDED_BY(mutex_){std::chrono::seconds(1'700'000'000)};
};

/// Formats `t` as "2026-01-02T03:04:05Z".
std::string rfc3339(Clock::Wall t);
/// Formats `t` as "2026-01-02T03:04:05.000000Z", the format of times in a Lease.
std::string rfc3339Micro(Clock::Wall t);

}  // namespace egpu::base
