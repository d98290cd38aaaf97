#include "controller/reconcile/priority/plan_turns.h"

namespace egpu::reconcile {

using std::chrono::milliseconds;

void PlanTurns::erase(const std::string& claimUid) {
  const auto known = positions_.find(claimUid);
  if (known == positions_.end()) return;
  inOrder_.erase(known->second);
  positions_.erase(known);
}

void PlanTurns::wait(const QueueOrder& order, const std::string& queueKey) {
  const base::MutexLock lock(mutex_);
  erase(order.age.uid);  // it may have had another priority
  const Position at{order, queueKey};
  inOrder_.insert(at);
  positions_.emplace(order.age.uid, at);
}

bool PlanTurns::done(const std::string& claimUid) {
  const base::MutexLock lock(mutex_);
  erase(claimUid);
  if (turn_ && turn_->at.first.age.uid == claimUid) turn_.reset();
  return !turn_ && !inOrder_.empty();
}

PlanTurns::NextPlan PlanTurns::next(milliseconds rest) {
  const base::MutexLock lock(mutex_);
  const auto now = clock_.now();
  if (turn_) {
    const auto left = turn_->since + timeouts_.victimSearchTurnTimeout - now;
    if (left.count() > 0) return {std::nullopt, std::chrono::ceil<milliseconds>(left)};
    erase(turn_->at.first.age.uid);
    turn_.reset();
  }
  if (inOrder_.empty()) return {};
  if (rest.count() > 0) return {std::nullopt, rest};
  turn_ = PlanSlot{*inOrder_.begin(), now};
  return {turn_->at.second, timeouts_.victimSearchTurnTimeout};
}

bool PlanTurns::hasTurn(const std::string& queueKey) const {
  const base::MutexLock lock(mutex_);
  return turn_ && turn_->at.second == queueKey;
}

}  // namespace egpu::reconcile
