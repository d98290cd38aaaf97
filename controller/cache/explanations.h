// What was said of late about why requests do not fit: a thousand claims that wait for the same are not a thousand
// scans of the cluster.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <string_view>

#include "controller/scheduler/explain.h"

namespace egpu::cache {

/// Explanations of requests, each for the nodes that may serve it: `nodes` is the same text for the same nodes. Not
/// thread-safe.
class Explanations {
 public:
  using Clock = std::chrono::steady_clock;
  /// One that took less than this is made anew each time, which is cheap and exact.
  static constexpr std::chrono::milliseconds kLong{2};
  /// Another one is told again for so many times as long as it took: so much of the time, at most, goes into each.
  static constexpr int kToldFor = 20;
  static constexpr std::size_t kMost = 64;

  /// Null: it has to be made. Valid until the next call.
  const scheduler::Explanation* find(const scheduler::Request& request, std::string_view nodes, Clock::time_point now);
  void told(const scheduler::Request& request, std::string_view nodes, const scheduler::Explanation& explanation,
            Clock::time_point began, Clock::time_point ended);

 private:
  struct Told {
    scheduler::Request request;
    std::string nodes;
    scheduler::Explanation explanation;
    Clock::time_point until;
  };
  std::deque<Told> all_;  ///< oldest first
};

}  // namespace egpu::cache
