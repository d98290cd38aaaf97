// Time as an injected dependency: tests turn it by hand.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>

namespace egpu::base {

class Clock {
 public:
  using Steady = std::chrono::steady_clock::time_point;
  using Wall = std::chrono::system_clock::time_point;
  virtual ~Clock() = default;
  virtual Steady now() const = 0;  ///< monotonic; for deadlines and back-off
  virtual Wall wall() const = 0;   ///< for timestamps in objects only
  /// Sleeps until `until` or a stop; false if stopped.
  virtual bool sleepUntil(Steady until, std::stop_token stop) = 0;
  bool sleepFor(std::chrono::milliseconds d, std::stop_token stop) { return sleepUntil(now() + d, stop); }
};

/// The machine's clock. Thread-safe.
class SystemClock final : public Clock {
 public:
  Steady now() const override;
  Wall wall() const override;
  bool sleepUntil(Steady until, std::stop_token stop) override;
};

/// A clock that stands until advance(). Thread-safe.
class ManualClock final : public Clock {
 public:
  Steady now() const override;
  Wall wall() const override;
  bool sleepUntil(Steady until, std::stop_token stop) override;
  void advance(std::chrono::milliseconds d);

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  Steady now_{std::chrono::hours(1)};
  Wall wall_{std::chrono::seconds(1'700'000'000)};
};

/// "2026-01-02T03:04:05Z"
std::string rfc3339(Clock::Wall t);
/// "2026-01-02T03:04:05.000000Z", as Lease wants it.
std::string rfc3339Micro(Clock::Wall t);

}  // namespace egpu::base
