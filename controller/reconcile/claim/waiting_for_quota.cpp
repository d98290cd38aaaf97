#include "controller/reconcile/claim/waiting_for_quota.h"

namespace egpu::reconcile {

void WaitingForQuota::add(const std::string& namespace_, const std::string& queueKey, const Age& age,
                          int64_t priority) {
  remove(queueKey);
  const std::lock_guard lock(mutex_);
  const QueueOrder turn{-priority, age};
  keys_[queueKey] = {namespace_, turn};
  waiting_[namespace_].emplace(turn, queueKey);
}

void WaitingForQuota::remove(const std::string& queueKey) {
  const std::lock_guard lock(mutex_);
  const auto known = keys_.find(queueKey);
  if (known == keys_.end()) return;
  const auto& [namespace_, turn] = known->second;
  const auto all = waiting_.find(namespace_);
  all->second.erase({turn, queueKey});
  if (all->second.empty()) waiting_.erase(all);
  keys_.erase(known);
}

std::vector<std::string> WaitingForQuota::of(const std::string& namespace_) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> keys;
  if (const auto all = waiting_.find(namespace_); all != waiting_.end())
    for (const auto& [turn, key] : all->second) keys.push_back(key);
  return keys;
}

std::size_t WaitingForQuota::size() const {
  const std::lock_guard lock(mutex_);
  return keys_.size();
}

void WaitingForQuota::refused(const std::string& claimUid, uint64_t version) {
  const std::lock_guard lock(mutex_);
  refused_[claimUid] = version;
}

bool WaitingForQuota::stillRefused(const std::string& claimUid, const std::optional<uint64_t>& version) {
  const std::lock_guard lock(mutex_);
  if (version) return refused_.try_emplace(claimUid, *version).first->second == *version;
  refused_.erase(claimUid);
  return false;
}

void WaitingForQuota::forgetClaim(const std::string& claimUid) {
  const std::lock_guard lock(mutex_);
  refused_.erase(claimUid);
}

std::size_t WaitingForQuota::claims() const {
  const std::lock_guard lock(mutex_);
  return refused_.size();
}

}  // namespace egpu::reconcile
