// Cache of recent explanations why requests do not fit, so that a thousand claims pending for the same capacity do not
// cause a thousand scans of the cluster.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <string_view>

#include "controller/scheduler/explain.h"

namespace egpu::allocator {

/// Explanations by request and by `nodes`, a key of the nodes that may serve it: equal texts mean equal nodes. Not
/// thread-safe.
class ExplanationCache {
 public:
  using Clock = std::chrono::steady_clock;
  /// A faster explanation is not cached: making it again is cheap, and exact.
  static constexpr std::chrono::milliseconds kLong{2};
  /// A slower explanation stays valid for this multiple of the time that it took. This bounds the time spent on each.
  static constexpr int kValidityFactor = 20;
  static constexpr std::size_t kMax = 64;

  /// Null if there is no valid explanation. The result is valid until the next call.
  const scheduler::Explanation* find(const scheduler::Request& request, std::string_view nodes, Clock::time_point now);
  void store(const scheduler::Request& request, std::string_view nodes, const scheduler::Explanation& explanation,
             Clock::time_point began, Clock::time_point ended);

 private:
  struct CachedExplanation {
    scheduler::Request request;
    std::string nodes;
    scheduler::Explanation explanation;
    Clock::time_point until;
  };
  std::deque<CachedExplanation> all_;  ///< oldest first
};

}  // namespace egpu::allocator
