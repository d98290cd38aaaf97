#include "controller/reconcile/waiting.h"

namespace egpu::reconcile {

void Waiting::forRoom(const std::string& queueKey) {
  std::lock_guard lock(mutex_);
  room_.insert(queueKey);
}
void Waiting::satisfied(const std::string& queueKey) {
  std::lock_guard lock(mutex_);
  room_.erase(queueKey);
}
std::vector<std::string> Waiting::all() const {
  std::lock_guard lock(mutex_);
  return {room_.begin(), room_.end()};
}
std::size_t Waiting::size() const {
  std::lock_guard lock(mutex_);
  return room_.size();
}

void Waiting::rejectNode(const std::string& claimUid, const std::string& node, std::chrono::milliseconds howLong) {
  std::lock_guard lock(mutex_);
  rejectedUntil_[claimUid][node] = clock_.now() + howLong;
}
bool Waiting::rejected(const std::string& claimUid, std::string_view node) const {
  std::lock_guard lock(mutex_);
  auto claim = rejectedUntil_.find(claimUid);
  if (claim == rejectedUntil_.end()) return false;
  auto it = claim->second.find(node);
  return it != claim->second.end() && clock_.now() < it->second;
}
bool Waiting::anyRejected(const std::string& claimUid) const {
  std::lock_guard lock(mutex_);
  auto claim = rejectedUntil_.find(claimUid);
  if (claim == rejectedUntil_.end()) return false;
  const auto now = clock_.now();
  for (const auto& [node, until] : claim->second)
    if (now < until) return true;
  return false;
}
void Waiting::forgetClaim(const std::string& claimUid) {
  std::lock_guard lock(mutex_);
  rejectedUntil_.erase(claimUid);
  explained_.erase(claimUid);
  refused_.erase(claimUid);
}

bool Waiting::mayExplain(const std::string& claimUid, std::chrono::milliseconds every) {
  std::lock_guard lock(mutex_);
  const auto now = clock_.now();
  auto [it, fresh] = explained_.try_emplace(claimUid, now);
  if (fresh) return true;
  if (now - it->second < every) return false;
  it->second = now;
  return true;
}

void Waiting::refused(const std::string& claimUid, const std::string& provisioner, const std::string& message,
                      std::chrono::milliseconds howLong) {
  std::lock_guard lock(mutex_);
  refused_[claimUid] = {provisioner, message, clock_.now() + howLong};
}
std::string Waiting::refusal(const std::string& claimUid) const {
  std::lock_guard lock(mutex_);
  auto it = refused_.find(claimUid);
  if (it == refused_.end() || clock_.now() >= it->second.until) return {};
  return it->second.message.empty() ? "refused by the provisioner" : it->second.message;
}
void Waiting::pluginChanged(const std::string& provisioner) {
  std::lock_guard lock(mutex_);
  for (auto it = refused_.begin(); it != refused_.end();)
    it = it->second.provisioner == provisioner ? refused_.erase(it) : std::next(it);
}

}  // namespace egpu::reconcile
