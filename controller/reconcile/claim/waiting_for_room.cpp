#include "controller/reconcile/claim/waiting_for_room.h"

namespace egpu::reconcile {

void WaitingForRoom::add(const std::string& queueKey, const Age& age, int64_t priority) {
  const std::lock_guard lock(mutex_);
  const QueueOrder turn{-priority, age};
  const auto [known, fresh] = keys_.try_emplace(queueKey, turn);
  if (!fresh && known->second == turn) return;
  if (!fresh) keysInOrder_.erase({known->second, queueKey});  // made anew under its name, or of another priority
  known->second = turn;
  keysInOrder_.emplace(turn, queueKey);
}

void WaitingForRoom::remove(const std::string& queueKey) {
  const std::lock_guard lock(mutex_);
  const auto known = keys_.find(queueKey);
  if (known == keys_.end()) return;
  keysInOrder_.erase({known->second, queueKey});
  keys_.erase(known);
}

std::vector<std::string> WaitingForRoom::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> keys;
  keys.reserve(keysInOrder_.size());
  for (const auto& [turn, key] : keysInOrder_) keys.push_back(key);
  return keys;
}

std::size_t WaitingForRoom::size() const {
  const std::lock_guard lock(mutex_);
  return keys_.size();
}

bool WaitingForRoom::mayExplain(const std::string& claimUid) {
  const std::lock_guard lock(mutex_);
  const auto now = clock_.now();
  const auto [it, fresh] = explained_.try_emplace(claimUid, now);
  if (fresh) return true;
  if (now - it->second < kExplainEvery) return false;
  it->second = now;
  return true;
}

void WaitingForRoom::forgetClaim(const std::string& claimUid) {
  const std::lock_guard lock(mutex_);
  explained_.erase(claimUid);
}

std::size_t WaitingForRoom::claims() const {
  const std::lock_guard lock(mutex_);
  return explained_.size();
}

}  // namespace egpu::reconcile
