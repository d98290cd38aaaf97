#include "controller/workqueue/workqueue.h"

#include <algorithm>

namespace egpu::workqueue {

using std::chrono::duration;
using std::chrono::milliseconds;

WorkQueue::WorkQueue(std::string name, base::Clock& clock, base::Metrics& metrics, RateLimit limit)
    : labels_{{"queue", std::move(name)}},
      clock_(clock),
      metrics_(metrics),
      limit_(limit),
      tokens_(limit.burst),
      tokensAt_(clock.now()),
      delays_([this](std::stop_token stop) { runDelays(std::move(stop)); }) {}

WorkQueue::~WorkQueue() {
  shutDown();
  delays_.request_stop();
  {
    std::lock_guard lock(mutex_);
    delayChanged_.request_stop();
  }
  delays_.join();
}

bool WorkQueue::makeReady(const std::string& key) {
  if (shutDown_ || !dirty_.emplace(key, clock_.now()).second) return false;
  if (processing_.contains(key)) return true;  // done() moves it to ready_
  ready_.push_back(key);
  readyChanged_.notify_one();
  return true;
}

void WorkQueue::add(const std::string& key) {
  std::size_t depth = 0;
  {
    std::lock_guard lock(mutex_);
    if (!makeReady(key)) return;
    depth = ready_.size();
  }
  metrics_.add("elasticgpu_workqueue_adds_total", 1, labels_);
  metrics_.set("elasticgpu_workqueue_depth", static_cast<double>(depth), labels_);
}

void WorkQueue::addAfter(const std::string& key, milliseconds delay) {
  if (delay.count() <= 0) {
    add(key);
    return;
  }
  std::lock_guard lock(mutex_);
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

void WorkQueue::addRateLimited(const std::string& key) {
  milliseconds delay{0};
  {
    std::lock_guard lock(mutex_);
    if (shutDown_) return;
    const int n = failures_[key]++;
    // 2^n in a double can't overflow before it exceeds max.
    double wait = static_cast<double>(limit_.base.count());
    for (int i = 0; i < n && wait < static_cast<double>(limit_.max.count()); ++i) wait *= 2;
    delay = std::min(limit_.max, milliseconds(static_cast<int64_t>(wait)));
    delay = std::max(delay, bucketDelay());
  }
  metrics_.add("elasticgpu_workqueue_retries_total", 1, labels_);
  addAfter(key, delay);
}

milliseconds WorkQueue::bucketDelay() {
  const Steady now = clock_.now();
  const duration<double> since = now - tokensAt_;
  tokensAt_ = now;
  tokens_ = std::min(static_cast<double>(limit_.burst), tokens_ + since.count() * limit_.perSecond) - 1;
  if (tokens_ >= 0) return milliseconds(0);
  return std::chrono::ceil<milliseconds>(duration<double>(-tokens_ / limit_.perSecond));
}

void WorkQueue::forget(const std::string& key) {
  std::lock_guard lock(mutex_);
  failures_.erase(key);
}

int WorkQueue::retries(const std::string& key) const {
  std::lock_guard lock(mutex_);
  const auto it = failures_.find(key);
  return it == failures_.end() ? 0 : it->second;
}

std::optional<std::string> WorkQueue::get(std::stop_token stop) {
  std::string key;
  duration<double> waited{};
  std::size_t depth = 0;
  {
    std::unique_lock lock(mutex_);
    readyChanged_.wait(lock, stop, [this] { return shutDown_ || !ready_.empty(); });
    if (shutDown_ || stop.stop_requested()) {
      // This waiter may have eaten a notification meant for another.
      if (!ready_.empty()) readyChanged_.notify_one();
      return std::nullopt;
    }
    key = std::move(ready_.front());
    ready_.pop_front();
    const Steady now = clock_.now();
    const auto since = dirty_.find(key);
    waited = now - since->second;
    dirty_.erase(since);
    processing_.emplace(key, now);
    depth = ready_.size();
  }
  metrics_.observe("elasticgpu_workqueue_queue_duration_seconds", waited.count(), labels_);
  metrics_.set("elasticgpu_workqueue_depth", static_cast<double>(depth), labels_);
  return key;
}

void WorkQueue::done(const std::string& key) {
  duration<double> worked{};
  {
    std::lock_guard lock(mutex_);
    const auto taken = processing_.find(key);
    if (taken == processing_.end()) return;
    worked = clock_.now() - taken->second;
    processing_.erase(taken);
    if (!shutDown_ && dirty_.contains(key)) {
      ready_.push_back(key);
      readyChanged_.notify_one();
    }
    if (processing_.empty()) workChanged_.notify_all();
  }
  metrics_.observe("elasticgpu_workqueue_work_duration_seconds", worked.count(), labels_);
}

void WorkQueue::shutDown() {
  {
    std::lock_guard lock(mutex_);
    if (shutDown_) return;
    shutDown_ = true;
    ready_.clear();
    dirty_.clear();
    delayed_.clear();
    delayedAt_.clear();
    readyChanged_.notify_all();
  }
  metrics_.set("elasticgpu_workqueue_depth", 0, labels_);
}

bool WorkQueue::drain(milliseconds atMost) {
  // The sleep is ended by a stop, because a Clock can wait for nothing else: the watcher turns "all done" into one.
  std::stop_source finished;
  std::jthread watcher([this, &finished](std::stop_token stop) {
    std::unique_lock lock(mutex_);
    if (workChanged_.wait(lock, stop, [this] { return processing_.empty(); })) finished.request_stop();
  });
  clock_.sleepFor(atMost, finished.get_token());
  return finished.stop_requested();
}

std::optional<std::pair<std::string, base::Clock::Steady>> WorkQueue::longestWork() const {
  std::lock_guard lock(mutex_);
  std::optional<std::pair<std::string, Steady>> longest;
  for (const auto& [key, since] : processing_)
    if (!longest || since < longest->second) longest.emplace(key, since);
  return longest;
}

std::size_t WorkQueue::depth() const {
  std::lock_guard lock(mutex_);
  return ready_.size();
}
std::size_t WorkQueue::waiting() const {
  std::lock_guard lock(mutex_);
  return delayed_.size();
}
bool WorkQueue::idle() const {
  std::lock_guard lock(mutex_);
  return ready_.empty() && processing_.empty();
}

void WorkQueue::runDelays(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::size_t added = 0, depth = 0;
    Steady until;
    std::stop_token changed;
    {
      std::lock_guard lock(mutex_);
      const Steady now = clock_.now();
      while (!delayed_.empty() && delayed_.begin()->first <= now) {
        auto due = delayed_.extract(delayed_.begin());
        delayedAt_.erase(due.value().second);
        if (makeReady(due.value().second)) ++added;
      }
      depth = ready_.size();
      until = delayed_.empty() ? now + std::chrono::hours(24) : delayed_.begin()->first;
      delayChanged_ = std::stop_source();
      changed = delayChanged_.get_token();
    }
    if (added > 0) {
      metrics_.add("elasticgpu_workqueue_adds_total", static_cast<double>(added), labels_);
      metrics_.set("elasticgpu_workqueue_depth", static_cast<double>(depth), labels_);
    }
    // The destructor requests `stop` first and then ends the sleep; had it done so before the source was renewed above:
    if (stop.stop_requested()) return;
    clock_.sleepUntil(until, changed);
  }
}

}  // namespace egpu::workqueue
