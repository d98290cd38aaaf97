#include "controller/reconcile/priority/plan_queue.h"

namespace egpu::reconcile {

using std::chrono::milliseconds;

void PlanQueue::erase(const std::string& claimUid) {
  const auto known = positions_.find(claimUid);
  if (known == positions_.end()) return;
  inOrder_.erase(known->second);
  positions_.erase(known);
}

void PlanQueue::wait(const QueueOrder& order, const std::string& queueKey) {
  const base::MutexLock lock(mutex_);
  erase(order.age.uid);  // it may have had another priority
  const Position at{order, queueKey};
  inOrder_.insert(at);
  positions_.emplace(order.age.uid, at);
}

bool PlanQueue::done(const std::string& claimUid) {
  const base::MutexLock lock(mutex_);
  erase(claimUid);
  if (current_ && current_->at.first.age.uid == claimUid) current_.reset();
  return !current_ && !inOrder_.empty();
}

PlanQueue::NextPlan PlanQueue::next(milliseconds rest) {
  const base::MutexLock lock(mutex_);
  const auto now = clock_.now();
  if (current_) {
    const auto left = current_->since + timeouts_.victimSearchSlotTimeout - now;
    if (left.count() > 0) return {std::nullopt, std::chrono::ceil<milliseconds>(left)};
    erase(current_->at.first.age.uid);
    current_.reset();
  }
  if (inOrder_.empty()) return {};
  if (rest.count() > 0) return {std::nullopt, rest};
  current_ = PlanSlot{*inOrder_.begin(), now};
  return {current_->at.second, timeouts_.victimSearchSlotTimeout};
}

bool PlanQueue::isCurrent(const std::string& queueKey) const {
  const base::MutexLock lock(mutex_);
  return current_ && current_->at.second == queueKey;
}

}  // namespace egpu::reconcile
