#include "controller/reconcile/retry/provision_backoff.h"

#include <algorithm>

namespace egpu::reconcile {

void ProvisionBackoff::refused(const std::string& claimUid, const std::string& provisioner, const std::string& message,
                               std::chrono::milliseconds howLong, const std::string& device) {
  const base::MutexLock lock(mutex_);
  refused_[claimUid] = {provisioner, message, device, clock_.now() + howLong};
}

bool ProvisionBackoff::isRefusalOfOther(const std::string& claimUid, const std::string& device) const {
  const base::MutexLock lock(mutex_);
  const auto it = refused_.find(claimUid);
  return it != refused_.end() && !it->second.device.empty() && it->second.device != device;
}

std::string ProvisionBackoff::refusal(const std::string& claimUid) const {
  const base::MutexLock lock(mutex_);
  auto it = refused_.find(claimUid);
  if (it == refused_.end() || clock_.now() >= it->second.until) return {};
  return it->second.message.empty() ? "refused by the provisioner" : it->second.message;
}

std::chrono::milliseconds ProvisionBackoff::untilRefusalEnds(const std::string& claimUid) const {
  const base::MutexLock lock(mutex_);
  auto it = refused_.find(claimUid);
  const auto now = clock_.now();
  if (it == refused_.end() || now >= it->second.until) return {};
  return std::chrono::ceil<std::chrono::milliseconds>(it->second.until - now);
}

int ProvisionBackoff::serverRefused(const std::string& claimUid) {
  const base::MutexLock lock(mutex_);
  return ++serverRefused_[claimUid];
}

void ProvisionBackoff::pluginChanged(const std::string& provisioner) {
  const base::MutexLock lock(mutex_);
  for (auto it = refused_.begin(); it != refused_.end();)
    it = it->second.provisioner == provisioner ? refused_.erase(it) : std::next(it);
}

void ProvisionBackoff::forgetClaim(const std::string& claimUid) {
  const base::MutexLock lock(mutex_);
  refused_.erase(claimUid);
  serverRefused_.erase(claimUid);
}

std::size_t ProvisionBackoff::claims() const {
  const base::MutexLock lock(mutex_);
  return refused_.size() + serverRefused_.size();
}

}  // namespace egpu::reconcile
