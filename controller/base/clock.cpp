#include "controller/base/clock.h"

#include <ctime>

#include "controller/base/mutex.h"

namespace egpu::base {

namespace {
std::string format(Clock::Wall t, bool micro) {
  const auto since = t.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  const std::time_t tt = static_cast<std::time_t>(seconds.count());
  std::tm tm{};
  gmtime_r(&tt, &tm);
  char text[40];
  std::size_t n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
  std::string out(text, n);
  if (micro) {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(since - seconds).count();
    std::string digits = std::to_string(us);
    out += "." + std::string(6 - digits.size(), '0') + digits;
  }
  return out + "Z";
}
}  // namespace

std::string rfc3339(Clock::Wall t) { return format(t, false); }
std::string rfc3339Micro(Clock::Wall t) { return format(t, true); }

Clock::Steady SystemClock::now() const { return std::chrono::steady_clock::now(); }
Clock::Wall SystemClock::wall() const { return std::chrono::system_clock::now(); }
bool SystemClock::sleepUntil(Steady until, std::stop_token stop) {
  Mutex m;
  std::condition_variable_any cv;
  MutexLock lock(m);
  cv.wait_until(lock, stop, until, [] { return false; });
  return !stop.stop_requested();
}

Clock::Steady ManualClock::now() const {
  MutexLock lock(mutex_);
  return now_;
}
Clock::Wall ManualClock::wall() const {
  MutexLock lock(mutex_);
  return wall_;
}
bool ManualClock::sleepUntil(Steady until, std::stop_token stop) {
  MutexLock lock(mutex_);
  return changed_.wait(lock, stop, [&]() EGPU_REQUIRES(mutex_) { return now_ >= until; });
}
void ManualClock::advance(std::chrono::milliseconds d) {
  MutexLock lock(mutex_);
  now_ += d;
  wall_ += d;
  changed_.notify_all();
}

}  // namespace egpu::base
