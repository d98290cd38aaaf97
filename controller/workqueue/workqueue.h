// A queue of keys for reconcile loops: a key is worked on by one worker at a time, and what happens to it meanwhile is
// not lost. Keys belong to groups (namespaces), which take turns, so that slow or failing keys of one group hold up
// that group alone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "controller/base/clock.h"
#include "controller/base/metrics.h"

namespace egpu::workqueue {

/// addRateLimited waits max(base·2ⁿ up to max, the bucket's turn); n counts since the last forget() of that key.
struct RateLimit {
  std::chrono::milliseconds base{5};
  std::chrono::milliseconds max{1'000'000};
  double perSecond = 10;  ///< over all keys of a group
  int burst = 100;
};

/// How groups share the workers. Groups with ready keys take turns. A group that no worker works on gets any free one.
/// Another worker it gets only while
///   its workers < 3 · (free workers - 1), and its workers < half of all if other groups have ready keys:
/// of 16 workers a group alone gets 12, two groups 13, and a third finds some free, however long their steps take.
///
/// A group is slow from when a step of its takes more than a second until each key that did has had a quick step, or
/// none for ten minutes. Slow groups share, by turns, half of the workers, three quarters while no other group has
/// ready keys; one at least. So that of however many groups hang, the others find workers free.
struct Fairness {
  int workers = 0;  ///< threads that call get(); 0 = no limit for a group
  /// A key's group; none = all keys are one. Called with the queue's lock held: it must not call the queue.
  std::function<std::string(const std::string& key)> groupOf{};
  /// Whether a key goes before the others of its group; none = no key does. Called likewise, at each add() of the key
  /// and when it becomes ready after its step: a ready key that may go first from now on is put before the others.
  std::function<bool(const std::string& key)> goesFirst{};
};

/// Thread-safe. Keys are opaque ("claim/ns/name"). `clock` and `metrics` must outlive it.
/// Metrics, labelled queue=name: elasticgpu_workqueue_depth, elasticgpu_workqueue_adds_total,
/// elasticgpu_workqueue_retries_total, elasticgpu_workqueue_queue_duration_seconds (ready → taken),
/// elasticgpu_workqueue_work_duration_seconds (taken → done).
class WorkQueue {
 public:
  WorkQueue(std::string name, base::Clock& clock, base::Metrics& metrics, RateLimit limit = {}, Fairness fairness = {});
  ~WorkQueue();  ///< no thread may be inside any call
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Makes the key ready. A key that is ready already stays one; one being worked on becomes ready again when done.
  void add(const std::string& key);
  /// add() once that time has passed; the earliest of several wins. 0 or less: at once.
  void addAfter(const std::string& key, std::chrono::milliseconds delay);
  /// addAfter() by the RateLimit, but not before `atLeast` has passed: for what failed and is worth another try.
  void addRateLimited(const std::string& key, std::chrono::milliseconds atLeast = {});
  /// The key went well: its next addRateLimited() starts at the shortest wait.
  void forget(const std::string& key);
  /// How often addRateLimited() since the last forget().
  int retries(const std::string& key) const;

  /// Blocks for a ready key that the Fairness lets through; nullopt after shutDown() or a stop. Every key taken must be
  /// given to done().
  std::optional<std::string> get(std::stop_token stop = {});
  /// get() without waiting: nullopt if there is no such key now.
  std::optional<std::string> tryGet();
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
  /// A key that must be worked on, or is: since when, and whose it was when it became ready.
  struct Entry {
    Steady since;
    std::string group;
    bool first = false;  ///< Fairness::goesFirst
    /// Its place among the keys of its group; none while it is worked on.
    std::optional<std::list<std::string>::iterator> place{};
  };
  struct Group {
    std::list<std::string> first, ready;  ///< each in the order in which they became ready
    int workers = 0;                      ///< that work on its keys
    bool hasReady() const { return !first.empty() || !ready.empty(); }
  };
  struct Bucket {
    double tokens = 0;  ///< negative = reserved ahead
    Steady at;          ///< when `tokens` was right
  };
  // All with mutex_ held.
  /// True if the key became ready now, which the caller counts and announces after unlocking.
  bool makeReady(const std::string& key);
  void enqueue(const std::string& key, Entry& entry);
  /// The key, which is ready or becomes so when it is done(), was added again: it may go first from now on.
  void promote(const std::string& key, Entry& entry);
  bool mayTake(const std::string& name, int slowWorkers, bool othersReady) const;
  /// Of turns_ the first group that may have another worker; end() if none.
  std::deque<std::string>::iterator nextTurn();
  /// Notes as slow what is being worked on for too long already. Returns how many workers slow groups have.
  int noteSlow();
  /// The key's step is over.
  void noteStep(const std::string& key, const std::string& group, base::Clock::Steady::duration took);
  std::string takeFrom(const std::deque<std::string>::iterator& turn);
  std::string take(std::unique_lock<std::mutex> lock, const std::deque<std::string>::iterator& turn);  ///< unlocks
  void wakeWorker();
  std::chrono::milliseconds bucketDelay(const std::string& group);

  void runDelays(std::stop_token stop);

  const base::MetricLabels labels_;
  base::Clock& clock_;
  base::Metrics& metrics_;
  const RateLimit limit_;
  const Fairness fairness_;

  // Protected by mutex_. Invariants: key is in a group's `first` or `ready` ⇔ key ∈ dirty_ and key ∉ processing_, and once only;
  // turns_ names each group with ready keys once; a group without ready keys and workers is not kept.
  mutable std::mutex mutex_;
  std::condition_variable_any readyChanged_;           ///< a key may be taken, or shutDown()
  std::condition_variable_any workChanged_;            ///< processing_ became empty
  std::unordered_map<std::string, Group> groups_;      ///< by name
  std::deque<std::string> turns_;                      ///< groups, the one whose turn it is first
  std::size_t depth_ = 0;                              ///< ready keys of all groups
  std::unordered_map<std::string, Entry> dirty_;       ///< must be worked on (again)
  std::unordered_map<std::string, Entry> processing_;  ///< with a worker, exactly one each
  std::unordered_map<std::string, int> failures_;      ///< n of the RateLimit
  std::unordered_map<std::string, Bucket> buckets_;    ///< by group; one that is missing is full
  /// By group: keys whose last step was slow, and when that was seen. No group without keys.
  std::unordered_map<std::string, std::unordered_map<std::string, Steady>> slow_;
  std::set<std::pair<Steady, std::string>> delayed_;   ///< by time. The same pairs as
  std::unordered_map<std::string, Steady> delayedAt_;  ///< by key
  bool shutDown_ = false;
  std::stop_source delayChanged_;  ///< ends the sleep of runDelays(): delayed_ has a new first element

  std::jthread delays_;
};

}  // namespace egpu::workqueue
