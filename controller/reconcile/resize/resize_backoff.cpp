#include "controller/reconcile/resize/resize_backoff.h"

#include "controller/base/backoff.h"

namespace egpu::reconcile {

using std::chrono::milliseconds;

ResizeBackoff::RefusedRequests& ResizeBackoff::of(const std::string& claimUid, const core::StringMap& requests) {
  auto& known = refused_[claimUid];
  if (known.requests != requests) {
    known = {};
    known.requests = requests;
  }
  return known;
}

void ResizeBackoff::refused(const std::string& claimUid, const core::StringMap& requests, std::string_view reason,
                            const std::string& message, milliseconds first, milliseconds longest) {
  const base::MutexLock lock(mutex_);
  auto& known = of(claimUid, requests);
  known.reason = std::string(reason);
  known.message = message;
  known.until = clock_.now() + base::exponentialBackoff(first, ++known.times, longest);
}

ResizeBackoff::ResizeRefusal ResizeBackoff::refusal(const std::string& claimUid,
                                                    const core::StringMap& requests) const {
  const base::MutexLock lock(mutex_);
  const auto known = refused_.find(claimUid);
  const auto now = clock_.now();
  if (known == refused_.end() || known->second.requests != requests || known->second.until <= now) return {};
  return {known->second.reason, known->second.message, std::chrono::ceil<milliseconds>(known->second.until - now)};
}

bool ResizeBackoff::mayExplain(const std::string& claimUid, const core::StringMap& requests) {
  const base::MutexLock lock(mutex_);
  auto& known = of(claimUid, requests);
  const auto now = clock_.now();
  if (now < known.explainAgain) return false;
  known.explainAgain = now + timeouts_.explainInterval;
  return true;
}

void ResizeBackoff::forgetClaim(const std::string& claimUid) {
  const base::MutexLock lock(mutex_);
  refused_.erase(claimUid);
}

std::size_t ResizeBackoff::claims() const {
  const base::MutexLock lock(mutex_);
  return refused_.size();
}

}  // namespace egpu::reconcile
