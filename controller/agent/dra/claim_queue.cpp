#include "controller/agent/dra/claim_queue.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace egpu::agent::dra {

ClaimQueue::~ClaimQueue() {
  {
    base::MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (auto& worker : workers_) worker.join();  // no further call of add() is possible
}

void ClaimQueue::add(const std::string& uid, std::function<void()> work) {
  {
    base::MutexLock lock(mutex_);
    items_.push_back({uid, std::move(work)});
    if (items_.size() > idle_ && workers_.size() < atOnce_) addWorker();
  }
  changed_.notify_one();
}

void ClaimQueue::addWorker() {
  try {
    workers_.emplace_back([this] { serve(); });
  } catch (const std::system_error&) {
    if (workers_.empty()) throw;  // otherwise the existing workers do the work
  }
}

/// Returns the first item whose claim has no running item, or end().
std::deque<ClaimQueue::Item>::iterator ClaimQueue::next() {
  return std::find_if(items_.begin(), items_.end(),
                      [&](const Item& item) EGPU_REQUIRES(mutex_) { return busy_.count(item.uid) == 0; });
}

void ClaimQueue::serve() {
  base::MutexLock lock(mutex_);
  for (;;) {
    auto at = items_.end();
    ++idle_;
    changed_.wait(lock,
                  [&]() EGPU_REQUIRES(mutex_) { return (at = next()) != items_.end() || (ending_ && items_.empty()); });
    --idle_;
    if (at == items_.end()) return;
    Item item = std::move(*at);
    items_.erase(at);
    busy_.insert(item.uid);
    lock.unlock();
    item.work();
    item.work = nullptr;
    lock.lock();
    busy_.erase(item.uid);
    // Wakes workers only if items remain, perhaps of this claim, or the queue is ending; otherwise a hundred items
    // would each wake all workers.
    if (!items_.empty() || ending_) changed_.notify_all();
  }
}

}  // namespace egpu::agent::dra
