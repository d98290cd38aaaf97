#include "provisioners/remote/pool_gate.h"

#include <algorithm>

namespace egpu::remote {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kMaxUnderWay = 2;
constexpr milliseconds kSlowAnswer{2'000};
constexpr milliseconds kFirstBackoff{1'000}, kMaxBackoff{60'000};
constexpr milliseconds kMaxSlowBackoff{8'000};  ///< as long as the longest request: half of the time is the pool's
/// A request waits while those under way are younger than this, and no longer than kMaxWait.
constexpr milliseconds kQuickAnswer{500}, kMaxWait{1'000};

std::string secondsText(milliseconds time) {
  const auto tenths = time.count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

sdk::Status PoolGate::enter(const std::string& url, TimePoint& begin) {
  const auto asked = steady_clock::now();
  std::unique_lock lock(mutex_);
  for (;;) {
    auto& pool = pools_[url];
    const auto now = steady_clock::now();
    const bool isPaused = pool.pause.count() != 0;
    if (isPaused && (now < pool.pausedUntil || !pool.underWay.empty()))
      return sdk::unavailable("pool " + url + " " + pool.why);
    if (pool.underWay.size() < kMaxUnderWay) {
      begin = now;
      pool.underWay.insert(now);
      return sdk::ok();
    }
    const auto until = std::min(*pool.underWay.begin() + kQuickAnswer, asked + kMaxWait);
    if (now >= until)
      return sdk::inProgress("pool " + url + " has not answered " + std::to_string(kMaxUnderWay) +
                             " other requests yet; this one follows");
    left_.wait_until(lock, until);
  }
}

void PoolGate::leave(const std::string& url, TimePoint begin, Answer answer, const std::string& error) {
  const std::lock_guard lock(mutex_);
  auto& pool = pools_[url];
  const auto now = steady_clock::now();
  const auto took = std::chrono::duration_cast<milliseconds>(now - begin);
  if (const auto mine = pool.underWay.find(begin); mine != pool.underWay.end()) pool.underWay.erase(mine);
  left_.notify_all();
  if (answer == Answer::unsent) return;
  if (answer == Answer::answered) pool.isSilent = false;
  if (answer == Answer::answered && took <= kSlowAnswer) {
    pool.pause = milliseconds(0);
    return;
  }
  const bool isSlow = answer == Answer::answered;
  if (!isSlow && !pool.isSilent) pool.silentSince = now, pool.isSilent = true;
  pool.why = isSlow ? "answers slowly: the last answer took " + secondsText(took) + "; it is asked again soon"
                    : "does not answer: " + error;
  pool.pause = std::min(std::max(pool.pause * 2, kFirstBackoff), isSlow ? kMaxSlowBackoff : kMaxBackoff);
  pool.pausedUntil = now + pool.pause;
}

milliseconds PoolGate::silence(const std::string& url) {
  const std::lock_guard lock(mutex_);
  const auto pool = pools_.find(url);
  if (pool == pools_.end() || !pool->second.isSilent) return milliseconds(0);
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - pool->second.silentSince);
}

}  // namespace egpu::remote
