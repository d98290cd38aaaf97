// A queue of keys for reconcile loops: a key is worked on by one worker at a time, and what happens to it meanwhile is
// not lost.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "controller/base/clock.h"
#include "controller/base/metrics.h"

namespace egpu::workqueue {

/// addRateLimited waits max(base·2ⁿ up to max, the bucket's turn); n counts since the last forget() of that key.
struct RateLimit {
  std::chrono::milliseconds base{5};
  std::chrono::milliseconds max{1'000'000};
  double perSecond = 10;  ///< over all keys
  int burst = 100;
};

/// Thread-safe. Keys are opaque ("claim/ns/name"). `clock` and `metrics` must outlive it.
/// Metrics, labelled queue=name: elasticgpu_workqueue_depth, elasticgpu_workqueue_adds_total,
/// elasticgpu_workqueue_retries_total, elasticgpu_workqueue_queue_duration_seconds (ready → taken),
/// elasticgpu_workqueue_work_duration_seconds (taken → done).
class WorkQueue {
 public:
  WorkQueue(std::string name, base::Clock& clock, base::Metrics& metrics, RateLimit limit = {});
  ~WorkQueue();  ///< no thread may be inside any call
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Makes the key ready. A key that is ready already stays one; one being worked on becomes ready again when done.
  void add(const std::string& key);
  /// add() once that time has passed; the earliest of several wins. 0 or less: at once.
  void addAfter(const std::string& key, std::chrono::milliseconds delay);
  /// addAfter() by the RateLimit: for what failed and is worth another try.
  void addRateLimited(const std::string& key);
  /// The key went well: its next addRateLimited() starts at the shortest wait.
  void forget(const std::string& key);
  /// How often addRateLimited() since the last forget().
  int retries(const std::string& key) const;

  /// Blocks for a ready key; nullopt after shutDown() or a stop. Every key taken must be given to done().
  std::optional<std::string> get(std::stop_token stop = {});
  void done(const std::string& key);

  /// Nothing is taken in or handed out any more (what is ready is dropped: it is derived anew at the next start).
  void shutDown();
  /// After shutDown(): blocks until no key is being worked on; false if the time runs out first.
  bool drain(std::chrono::milliseconds atMost);

  /// The key that a worker has had for longest, and since when; nullopt if none is being worked on.
  std::optional<std::pair<std::string, base::Clock::Steady>> longestWork() const;
  /// Ready keys.
  std::size_t depth() const;
  /// Keys that wait for their time (addAfter).
  std::size_t waiting() const;
  /// Nothing ready and nothing being worked on. Waiting keys don't count.
  bool idle() const;

 private:
  using Steady = base::Clock::Steady;
  /// True if the key became ready now, which the caller counts and announces after unlocking.
  bool makeReady(const std::string& key);
  void runDelays(std::stop_token stop);
  std::chrono::milliseconds bucketDelay();

  const base::MetricLabels labels_;
  base::Clock& clock_;
  base::Metrics& metrics_;
  const RateLimit limit_;

  // Protected by mutex_. Invariants: key ∈ ready_ ⇔ key ∈ dirty_ and key ∉ processing_; no key is in ready_ twice.
  mutable std::mutex mutex_;
  std::condition_variable_any readyChanged_;            ///< a key became ready, or shutDown()
  std::condition_variable_any workChanged_;             ///< processing_ became empty
  std::deque<std::string> ready_;                       ///< in the order in which they became ready
  std::unordered_map<std::string, Steady> dirty_;       ///< must be worked on (again); since when
  std::unordered_map<std::string, Steady> processing_;  ///< with a worker, exactly one each; since when
  std::unordered_map<std::string, int> failures_;       ///< n of the RateLimit
  std::set<std::pair<Steady, std::string>> delayed_;    ///< by time. The same pairs as
  std::unordered_map<std::string, Steady> delayedAt_;   ///< by key
  double tokens_;                                       ///< of the bucket; negative = reserved ahead
  Steady tokensAt_;                                     ///< when tokens_ was right
  bool shutDown_ = false;
  std::stop_source delayChanged_;  ///< ends the sleep of runDelays(): delayed_ has a new first element

  std::jthread delays_;
};

}  // namespace egpu::workqueue
