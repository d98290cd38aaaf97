// Queue of keys for reconcile loops, as in client-go. One worker at a time processes a key, and a key that is added
// during its processing is processed again. Keys belong to groups (namespaces) that take turns, so that slow or failing
// keys delay only their own group.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/base/mutex.h"

namespace egpu::workqueue {

/// Delays of addRateLimited(): the larger of min(base·2ⁿ, max) and the delay of the group's token bucket. n is the
/// number of calls for the key since its last forget().
struct RateLimit {
  std::chrono::milliseconds base{5};
  std::chrono::milliseconds max{1'000'000};
  double perSecond = 10;  ///< tokens per second for all keys of a group
  int burst = 100;        ///< capacity of a group's token bucket
};

/// Rules by which groups share the workers. Groups with ready keys take turns. A group without a worker gets any free
/// worker. A group with workers gets another one only while
///   its workers < 3 · (free workers - 1), and its workers < half of all if other groups have ready keys.
/// Of 16 workers, a single group gets 12 and two groups get 13, so that a third group finds free workers, however long
/// the steps of the first two take. A step is the processing of a key from get() to done().
///
/// A group becomes slow when a step of one of its keys takes more than a second. It stays slow until every such key has
/// had a faster step, or no step for ten minutes. All slow groups together get half of the workers, or three quarters
/// while no other group has ready keys, but at least one worker. So the other groups find free workers, however many
/// groups hang.
struct Fairness {
  int workers = 0;  ///< threads that call get(); 0 = no limit for a group
  /// Returns the group of a key. Empty = all keys are in one group. Called with the queue's lock held: it must not call
  /// the queue.
  std::function<std::string(const std::string& key)> groupOf{};
  /// True if a key is processed before the other keys of its group. Empty = no key is. Called with the queue's lock
  /// held, at each add() of the key and when the key becomes ready again after its step. If the result changes to true
  /// while the key is ready, the key moves ahead.
  std::function<bool(const std::string& key)> goesFirst{};
};

/// Thread-safe. Keys are opaque ("claim/ns/name"). `clock` and `metrics` must outlive the queue.
/// Metrics, labelled queue=name: elasticgpu_workqueue_depth, elasticgpu_workqueue_adds_total,
/// elasticgpu_workqueue_retries_total, elasticgpu_workqueue_queue_duration_seconds (ready → taken),
/// elasticgpu_workqueue_work_duration_seconds (taken → done).
class WorkQueue {
 public:
  WorkQueue(std::string name, base::Clock& clock, base::Metrics& metrics, RateLimit limit = {}, Fairness fairness = {});
  ~WorkQueue();  ///< no other thread may be inside a call
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Makes the key ready. A ready key is not added twice. A key that is being processed becomes ready again at done().
  void add(const std::string& key);
  /// Calls add() after the delay, or immediately if the delay is 0 or less. Of several delays for a key, the earliest
  /// end counts.
  void addAfter(const std::string& key, std::chrono::milliseconds delay);
  /// Calls addAfter() with the delay of the RateLimit, but at least `atLeast`. For keys that failed and are retried.
  void addRateLimited(const std::string& key, std::chrono::milliseconds atLeast = {});
  /// Resets the key's backoff after success: its next addRateLimited() uses the shortest delay.
  void forget(const std::string& key);
  /// Returns the number of addRateLimited() calls for the key since its last forget().
  int retries(const std::string& key) const;

  /// Blocks until there is a ready key that the Fairness allows, and takes it. Returns nullopt after shutDown() or a
  /// stop. The caller must call done() for every key that it takes.
  std::optional<std::string> get(std::stop_token stop = {});
  /// Like get(), but returns nullopt immediately if there is no such key.
  std::optional<std::string> tryGet();
  void done(const std::string& key);

  /// Stops accepting and returning keys. Drops ready and delayed keys, because the next start derives them again.
  void shutDown();
  /// Blocks until no key is being processed. Returns false if `timeout` passes first. Call after shutDown().
  bool drain(std::chrono::milliseconds timeout);

  /// Returns the key that has been processed for longest, and since when. Returns nullopt if no key is being processed.
  std::optional<std::pair<std::string, base::Clock::Steady>> longestWork() const;
  /// Returns the number of ready keys.
  std::size_t depth() const;
  /// Returns the number of keys whose delay (addAfter) has not yet passed.
  std::size_t waiting() const;
  /// True if no key is ready and no key is being processed. Delayed keys do not count.
  bool idle() const;

 private:
  using Steady = base::Clock::Steady;
  /// State of a key that is ready or being processed: since when, and the key's group at the time it became ready.
  struct KeyState {
    Steady since;
    std::string group;
    bool first = false;  ///< result of Fairness::goesFirst
    /// Position in the group's list of keys; nullopt while the key is being processed.
    std::optional<std::list<std::string>::iterator> place{};
  };
  struct KeyGroup {
    std::list<std::string> first, ready;  ///< each in the order in which they became ready
    int workers = 0;                      ///< workers that process its keys
    bool hasReady() const { return !first.empty() || !ready.empty(); }
  };
  struct Bucket {
    double tokens = 0;  ///< negative = tokens of the future are already used
    Steady at;          ///< time at which `tokens` was computed
  };
  /// A key that a worker takes, with the values of its metrics.
  struct DequeuedKey {
    std::string key;
    std::chrono::duration<double> waited;  ///< since the key became ready
    std::size_t depth;
  };
  /// Makes the key ready. Returns true if it was not; the caller then updates the metrics after unlocking.
  bool makeReady(const std::string& key) EGPU_REQUIRES(mutex_);
  void enqueue(const std::string& key, KeyState& entry) EGPU_REQUIRES(mutex_);
  /// Evaluates Fairness::goesFirst again for a key that was added again, and moves it ahead if the result became true.
  void promote(const std::string& key, KeyState& entry) EGPU_REQUIRES(mutex_);
  bool mayTake(const std::string& name, int slowWorkers, bool othersReady) const EGPU_REQUIRES(mutex_);
  /// Returns the first group in readyGroups_ that may get another worker; end() if there is none.
  std::deque<std::string>::iterator nextGroup() EGPU_REQUIRES(mutex_);
  /// Records the keys whose current step already takes too long as slow. Returns the number of workers of slow groups.
  int noteSlow() EGPU_REQUIRES(mutex_);
  /// Records a finished step, which may change whether the group is slow.
  void noteStep(const std::string& key, const std::string& group, base::Clock::Steady::duration took)
      EGPU_REQUIRES(mutex_);
  std::string takeFrom(const std::deque<std::string>::iterator& position) EGPU_REQUIRES(mutex_);
  DequeuedKey take(const std::deque<std::string>::iterator& position) EGPU_REQUIRES(mutex_);
  /// Updates the metrics, and returns the key.
  std::string report(DequeuedKey taken) EGPU_EXCLUDES(mutex_);
  void wakeWorker() EGPU_REQUIRES(mutex_);
  std::chrono::milliseconds bucketDelay(const std::string& group) EGPU_REQUIRES(mutex_);

  void runDelays(std::stop_token stop);

  const base::MetricLabels labels_;
  base::Clock& clock_;
  base::Metrics& metrics_;
  const RateLimit limit_;
  const Fairness fairness_;

  // Invariants: a key is in its group's `first` or `ready`, and only once, ⇔ key ∈ dirty_ and key ∉ processing_.
  // readyGroups_ contains each group with ready keys once. groups_ contains no group without ready keys and workers.
  mutable base::Mutex mutex_;
  std::condition_variable_any readyChanged_;  ///< a key can be taken, or shutDown() was called
  std::condition_variable_any workChanged_;   ///< processing_ became empty
  std::unordered_map<std::string, KeyGroup> groups_ EGPU_GUARDED_BY(mutex_);  ///< by name
  std::deque<std::string> readyGroups_ EGPU_GUARDED_BY(mutex_);  ///< names of groups with ready keys; the front is next
  std::size_t depth_ EGPU_GUARDED_BY(mutex_) = 0;                ///< ready keys of all groups
  /// Keys to process; again, if also in processing_.
  std::unordered_map<std::string, KeyState> dirty_ EGPU_GUARDED_BY(mutex_);
  /// Keys that a worker processes, one worker per key.
  std::unordered_map<std::string, KeyState> processing_ EGPU_GUARDED_BY(mutex_);
  std::unordered_map<std::string, int> failures_ EGPU_GUARDED_BY(mutex_);  ///< by key: n of the RateLimit
  /// By group; a group without an entry has a full bucket.
  std::unordered_map<std::string, Bucket> buckets_ EGPU_GUARDED_BY(mutex_);
  /// By group: keys whose last step was slow, and the time at which that was recorded. No group without keys.
  std::unordered_map<std::string, std::unordered_map<std::string, Steady>> slow_ EGPU_GUARDED_BY(mutex_);
  std::set<std::pair<Steady, std::string>> delayed_ EGPU_GUARDED_BY(mutex_);   ///< delayed keys by time
  std::unordered_map<std::string, Steady> delayedAt_ EGPU_GUARDED_BY(mutex_);  ///< the content of delayed_, by key
  bool shutDown_ EGPU_GUARDED_BY(mutex_) = false;
  /// Ends the sleep of runDelays() when delayed_ has a new first element.
  std::stop_source delayChanged_ EGPU_GUARDED_BY(mutex_);

  std::jthread delays_;
};

}  // namespace egpu::workqueue
