#include "controller/agent/dra/claim_queue.h"

#include <algorithm>
#include <utility>

namespace egpu::agent::dra {

ClaimQueue::ClaimQueue(std::size_t atOnce) {
  for (std::size_t i = 0; i < atOnce; ++i) workers_.emplace_back([this] { serve(); });
}

ClaimQueue::~ClaimQueue() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  workers_.clear();
}

void ClaimQueue::add(const std::string& uid, std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    items_.push_back({uid, std::move(work)});
  }
  changed_.notify_one();
}

/// The first one whose claim nobody works on.
std::deque<ClaimQueue::Item>::iterator ClaimQueue::next() {
  return std::find_if(items_.begin(), items_.end(), [&](const Item& item) { return busy_.count(item.uid) == 0; });
}

void ClaimQueue::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    auto at = items_.end();
    changed_.wait(lock, [&] { return (at = next()) != items_.end() || (ending_ && items_.empty()); });
    if (at == items_.end()) return;
    Item item = std::move(*at);
    items_.erase(at);
    busy_.insert(item.uid);
    lock.unlock();
    item.work();
    item.work = nullptr;
    lock.lock();
    busy_.erase(item.uid);
    changed_.notify_all();  // others of this claim may wait, or all for the end
  }
}

}  // namespace egpu::agent::dra
