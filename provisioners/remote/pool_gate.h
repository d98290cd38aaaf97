// Limits the requests to each pool, so that a pool that is down or slow does not occupy the host's few calls of this
// plugin, which the claims of all pools share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "api/plugin/provisioner.hpp"

namespace egpu::remote {

/// Thread-safe. Pools are named by their urls.
class PoolGate {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// At most 2 requests to a pool are under way. Further ones wait while the pool answers quickly. After a request
  /// without an answer, or with one that took more than 2 s, the pool gets no request for a while, and then a single
  /// one.
  ///
  /// Returns OK and the time if a request may be sent; leave() must follow. IN_PROGRESS: too many are under way.
  /// UNAVAILABLE: the pool gets no request for a while.
  sdk::Status enter(const std::string& url, TimePoint& begin);
  enum class Answer {
    answered,    ///< with any HTTP status
    unanswered,  ///< the pool did not answer
    unsent       ///< the request says nothing about the pool
  };
  /// begin: from enter(). error: why there is no answer.
  void leave(const std::string& url, TimePoint begin, Answer answer, const std::string& error);
  /// Returns the time since which the pool has answered no request, zero if it answered the last one.
  std::chrono::milliseconds silence(const std::string& url);

 private:
  struct PoolState {
    std::multiset<TimePoint> underWay;   ///< begin of each request
    std::chrono::milliseconds pause{0};  ///< length of the last pause; 0 = the pool answers quickly
    TimePoint pausedUntil;
    TimePoint silentSince;  ///< first request without an answer since the last answer
    bool isSilent = false;
    std::string why;  ///< reason of the pause, for people
  };

  std::mutex mutex_;
  std::condition_variable left_;
  std::map<std::string, PoolState> pools_;  ///< guarded by mutex_
};

}  // namespace egpu::remote
