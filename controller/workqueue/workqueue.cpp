#include "controller/workqueue/workqueue.h"

#include <algorithm>

namespace egpu::workqueue {

using std::chrono::duration;
using std::chrono::milliseconds;

namespace {
constexpr std::size_t kBuckets = 128;         ///< number of buckets from which full ones are erased
constexpr std::chrono::seconds kSlowStep{1};  ///< a step that takes longer is slow
constexpr std::chrono::minutes kSlowFor{10};  ///< time without another step after which a key is no longer slow
}  // namespace

WorkQueue::WorkQueue(std::string name, base::Clock& clock, base::Metrics& metrics, RateLimit limit, Fairness fairness)
    : labels_{{"queue", std::move(name)}},
      clock_(clock),
      metrics_(metrics),
      limit_(limit),
      fairness_(std::move(fairness)),
      delays_([this](std::stop_token stop) { runDelays(std::move(stop)); }) {}

WorkQueue::~WorkQueue() {
  shutDown();
  delays_.request_stop();
  {
    base::MutexLock lock(mutex_);
    delayChanged_.request_stop();
  }
  delays_.join();
}

bool WorkQueue::makeReady(const std::string& key) {
  if (shutDown_) return false;
  if (const auto known = dirty_.find(key); known != dirty_.end()) {
    promote(key, known->second);
    return false;
  }
  KeyState entry{clock_.now(), fairness_.groupOf ? fairness_.groupOf(key) : std::string(),
                 fairness_.goesFirst && fairness_.goesFirst(key)};
  if (!processing_.contains(key)) enqueue(key, entry);  // a key that is being processed is enqueued by done()
  dirty_.emplace(key, std::move(entry));
  wakeWorker();
  return true;
}

void WorkQueue::enqueue(const std::string& key, KeyState& entry) {
  auto& group = groups_[entry.group];
  if (!group.hasReady()) readyGroups_.push_back(entry.group);
  auto& keys = entry.first ? group.first : group.ready;
  entry.place = keys.insert(keys.end(), key);
  ++depth_;
}

void WorkQueue::promote(const std::string& key, KeyState& entry) {
  if (entry.first || !fairness_.goesFirst || !fairness_.goesFirst(key)) return;
  entry.first = true;
  if (!entry.place) return;
  auto& group = groups_.at(entry.group);
  group.first.splice(group.first.end(), group.ready, *entry.place);
}

bool WorkQueue::mayTake(const std::string& name, int slowWorkers, bool othersReady) const {
  const int all = fairness_.workers;
  if (slow_.contains(name) && slowWorkers >= std::max(1, othersReady ? all / 2 : all * 3 / 4)) return false;
  const int its = groups_.at(name).workers;
  if (its == 0) return true;
  const int free = all - static_cast<int>(processing_.size());
  if (its >= 3 * (free - 1)) return false;
  return readyGroups_.size() == 1 || its < all / 2;
}

std::deque<std::string>::iterator WorkQueue::nextGroup() {
  if (fairness_.workers == 0 || readyGroups_.empty()) return readyGroups_.begin();
  const int slowWorkers = noteSlow();
  const bool othersReady =
      std::any_of(readyGroups_.begin(), readyGroups_.end(),
                  [this](const auto& name) EGPU_REQUIRES(mutex_) { return !slow_.contains(name); });
  return std::find_if(readyGroups_.begin(), readyGroups_.end(), [&](const std::string& name) EGPU_REQUIRES(mutex_) {
    return mayTake(name, slowWorkers, othersReady);
  });
}

int WorkQueue::noteSlow() {
  const Steady now = clock_.now();
  for (const auto& [key, entry] : processing_)
    if (now - entry.since > kSlowStep) slow_[entry.group].insert_or_assign(key, now);
  if (slow_.empty()) return 0;
  return static_cast<int>(std::count_if(processing_.begin(), processing_.end(),
                                        [this](const auto& taken)
                                            EGPU_REQUIRES(mutex_) { return slow_.contains(taken.second.group); }));
}

void WorkQueue::noteStep(const std::string& key, const std::string& group, Steady::duration took) {
  const Steady now = clock_.now();
  if (took > kSlowStep) {
    slow_[group].insert_or_assign(key, now);
  } else if (const auto its = slow_.find(group); its != slow_.end()) {
    its->second.erase(key);
  } else {
    return;
  }
  for (auto it = slow_.begin(); it != slow_.end();) {
    std::erase_if(it->second, [now](const auto& seen) { return now - seen.second > kSlowFor; });
    it = it->second.empty() ? slow_.erase(it) : std::next(it);
  }
}

std::string WorkQueue::takeFrom(const std::deque<std::string>::iterator& position) {
  std::string name = std::move(*position);
  readyGroups_.erase(position);
  auto& group = groups_.at(name);
  auto& keys = group.first.empty() ? group.ready : group.first;
  std::string key = std::move(keys.front());
  keys.pop_front();
  --depth_;
  ++group.workers;
  auto entry = dirty_.extract(key);
  entry.mapped().group = name;
  entry.mapped().place.reset();
  processing_.emplace(key, std::move(entry.mapped()));
  if (group.hasReady()) readyGroups_.push_back(std::move(name));
  return key;
}

/// Wakes one worker in get() if there is a key for it. A worker that takes a key wakes the next one.
void WorkQueue::wakeWorker() {
  if (nextGroup() != readyGroups_.end()) readyChanged_.notify_one();
}

void WorkQueue::add(const std::string& key) {
  std::size_t depth = 0;
  {
    base::MutexLock lock(mutex_);
    if (!makeReady(key)) return;
    depth = depth_;
  }
  metrics_.add("elasticgpu_workqueue_adds_total", 1, labels_);
  metrics_.set("elasticgpu_workqueue_depth", static_cast<double>(depth), labels_);
}

void WorkQueue::addAfter(const std::string& key, milliseconds delay) {
  if (delay.count() <= 0) {
    add(key);
    return;
  }
  base::MutexLock lock(mutex_);
  if (shutDown_) return;
  const Steady when = clock_.now() + delay;
  const auto known = delayedAt_.find(key);
  if (known != delayedAt_.end()) {
    if (known->second <= when) return;
    delayed_.erase({known->second, key});
    known->second = when;
  } else {
    delayedAt_.emplace(key, when);
  }
  const auto place = delayed_.emplace(when, key).first;
  if (place == delayed_.begin()) delayChanged_.request_stop();
}

void WorkQueue::addRateLimited(const std::string& key, milliseconds atLeast) {
  milliseconds delay{0};
  {
    base::MutexLock lock(mutex_);
    if (shutDown_) return;
    const int n = failures_[key]++;
    // 2^n in a double can't overflow before it exceeds max.
    double wait = static_cast<double>(limit_.base.count());
    for (int i = 0; i < n && wait < static_cast<double>(limit_.max.count()); ++i) wait *= 2;
    delay = std::min(limit_.max, milliseconds(static_cast<int64_t>(wait)));
    delay = std::max({delay, atLeast, bucketDelay(fairness_.groupOf ? fairness_.groupOf(key) : std::string())});
  }
  metrics_.add("elasticgpu_workqueue_retries_total", 1, labels_);
  addAfter(key, delay);
}

milliseconds WorkQueue::bucketDelay(const std::string& group) {
  const Steady now = clock_.now();
  const auto filled = [&](const Bucket& bucket) {
    const duration<double> since = now - bucket.at;
    return std::min(static_cast<double>(limit_.burst), bucket.tokens + since.count() * limit_.perSecond);
  };
  if (buckets_.size() >= kBuckets)
    std::erase_if(buckets_, [&](const auto& named) { return filled(named.second) >= limit_.burst; });
  auto& bucket = buckets_.try_emplace(group, Bucket{static_cast<double>(limit_.burst), now}).first->second;
  bucket = {filled(bucket) - 1, now};
  if (bucket.tokens >= 0) return milliseconds(0);
  return std::chrono::ceil<milliseconds>(duration<double>(-bucket.tokens / limit_.perSecond));
}

void WorkQueue::forget(const std::string& key) {
  base::MutexLock lock(mutex_);
  failures_.erase(key);
}

int WorkQueue::retries(const std::string& key) const {
  base::MutexLock lock(mutex_);
  const auto it = failures_.find(key);
  return it == failures_.end() ? 0 : it->second;
}

std::optional<std::string> WorkQueue::get(std::stop_token stop) {
  base::MutexLock lock(mutex_);
  // The predicate stores the turn: a second nextGroup() could find none, because a step may have become slow meanwhile.
  auto position = readyGroups_.end();
  readyChanged_.wait(
      lock, stop, [&]() EGPU_REQUIRES(mutex_) { return shutDown_ || (position = nextGroup()) != readyGroups_.end(); });
  if (shutDown_ || stop.stop_requested()) {
    wakeWorker();  // this worker may have consumed the notification of another one
    return std::nullopt;
  }
  auto taken = take(position);
  lock.unlock();
  return report(std::move(taken));
}

std::optional<std::string> WorkQueue::tryGet() {
  base::MutexLock lock(mutex_);
  if (shutDown_) return std::nullopt;
  const auto position = nextGroup();
  if (position == readyGroups_.end()) return std::nullopt;
  auto taken = take(position);
  lock.unlock();
  return report(std::move(taken));
}

WorkQueue::DequeuedKey WorkQueue::take(const std::deque<std::string>::iterator& position) {
  std::string key = takeFrom(position);
  auto& since = processing_.at(key).since;
  const Steady now = clock_.now();
  const duration<double> waited = now - since;
  since = now;
  const std::size_t depth = depth_;
  wakeWorker();
  return {std::move(key), waited, depth};
}

std::string WorkQueue::report(DequeuedKey taken) {
  metrics_.observe("elasticgpu_workqueue_queue_duration_seconds", taken.waited.count(), labels_);
  metrics_.set("elasticgpu_workqueue_depth", static_cast<double>(taken.depth), labels_);
  return std::move(taken.key);
}

void WorkQueue::done(const std::string& key) {
  duration<double> worked{};
  {
    base::MutexLock lock(mutex_);
    const auto taken = processing_.find(key);
    if (taken == processing_.end()) return;
    const auto took = clock_.now() - taken->second.since;
    worked = took;
    const std::string group = std::move(taken->second.group);
    processing_.erase(taken);
    if (fairness_.workers != 0) noteStep(key, group, took);
    if (const auto again = dirty_.find(key); !shutDown_ && again != dirty_.end()) {
      promote(key, again->second);  // the step may have changed the result of goesFirst
      enqueue(key, again->second);
    }
    const auto its = groups_.find(group);
    if (--its->second.workers == 0 && !its->second.hasReady()) groups_.erase(its);
    wakeWorker();
    if (processing_.empty()) workChanged_.notify_all();
  }
  metrics_.observe("elasticgpu_workqueue_work_duration_seconds", worked.count(), labels_);
}

void WorkQueue::shutDown() {
  {
    base::MutexLock lock(mutex_);
    if (shutDown_) return;
    shutDown_ = true;
    for (auto& [name, group] : groups_) {
      group.first.clear();
      group.ready.clear();
    }
    readyGroups_.clear();
    depth_ = 0;
    dirty_.clear();
    delayed_.clear();
    delayedAt_.clear();
    readyChanged_.notify_all();
  }
  metrics_.set("elasticgpu_workqueue_depth", 0, labels_);
}

bool WorkQueue::drain(milliseconds timeout) {
  // A Clock can wait only for a time or a stop, so the watcher requests a stop when no key is being processed.
  std::stop_source finished;
  std::jthread watcher([this, &finished](std::stop_token stop) {
    base::MutexLock lock(mutex_);
    if (workChanged_.wait(lock, stop, [this]() EGPU_REQUIRES(mutex_) { return processing_.empty(); }))
      finished.request_stop();
  });
  clock_.sleepFor(timeout, finished.get_token());
  return finished.stop_requested();
}

std::optional<std::pair<std::string, base::Clock::Steady>> WorkQueue::longestWork() const {
  base::MutexLock lock(mutex_);
  std::optional<std::pair<std::string, Steady>> longest;
  for (const auto& [key, entry] : processing_)
    if (!longest || entry.since < longest->second) longest.emplace(key, entry.since);
  return longest;
}

std::size_t WorkQueue::depth() const {
  base::MutexLock lock(mutex_);
  return depth_;
}
std::size_t WorkQueue::waiting() const {
  base::MutexLock lock(mutex_);
  return delayed_.size();
}
bool WorkQueue::idle() const {
  base::MutexLock lock(mutex_);
  return depth_ == 0 && processing_.empty();
}

void WorkQueue::runDelays(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::size_t added = 0, depth = 0;
    Steady until;
    std::stop_token changed;
    {
      base::MutexLock lock(mutex_);
      const Steady now = clock_.now();
      while (!delayed_.empty() && delayed_.begin()->first <= now) {
        auto due = delayed_.extract(delayed_.begin());
        delayedAt_.erase(due.value().second);
        if (makeReady(due.value().second)) ++added;
      }
      depth = depth_;
      until = delayed_.empty() ? now + std::chrono::hours(24) : delayed_.begin()->first;
      delayChanged_ = std::stop_source();
      changed = delayChanged_.get_token();
    }
    if (added > 0) {
      metrics_.add("elasticgpu_workqueue_adds_total", static_cast<double>(added), labels_);
      metrics_.set("elasticgpu_workqueue_depth", static_cast<double>(depth), labels_);
    }
    // The destructor requests `stop` before it ends the sleep. If it did both before delayChanged_ was replaced above,
    // this check sees it.
    if (stop.stop_requested()) return;
    clock_.sleepUntil(until, changed);
  }
}

}  // namespace egpu::workqueue
