#include "controller/reconcile/placement/explainer.h"

#include <utility>

namespace egpu::reconcile {

std::optional<std::string> Explainer::take(const std::string& claimUid) {
  const base::MutexLock lock(mutex_);
  const auto known = requested_.find(claimUid);
  if (known == requested_.end() || !known->second.text) return std::nullopt;
  const bool isOutdated = clock_.now() - known->second.readyAt > timeouts_.explainInterval;
  auto text = isOutdated ? std::nullopt : std::move(known->second.text);
  requested_.erase(known);
  return text;
}

void Explainer::request(const std::string& claimUid, std::string queueKey, Explain make) {
  const base::MutexLock lock(mutex_);
  auto& requested = requested_[claimUid];
  const bool isQueued = requested.make != nullptr;  // it keeps its position
  if (!isQueued) {
    requested.number = ++numbers_;
    order_.emplace_back(requested.number, claimUid);
  }
  requested.queueKey = std::move(queueKey);
  requested.make = std::move(make);
  requested.text.reset();
}

void Explainer::forgetClaim(const std::string& claimUid) {
  const base::MutexLock lock(mutex_);
  requested_.erase(claimUid);
}

std::optional<std::pair<std::string, Explainer::Requested>> Explainer::next() {
  const base::MutexLock lock(mutex_);
  while (!order_.empty()) {
    const auto [number, claimUid] = std::move(order_.front());
    order_.pop_front();
    const auto known = requested_.find(claimUid);
    if (known == requested_.end() || known->second.number != number) continue;
    Requested taken{number, known->second.queueKey, std::exchange(known->second.make, nullptr), {}, {}};
    return std::pair(claimUid, std::move(taken));
  }
  return std::nullopt;
}

bool Explainer::store(const std::string& claimUid, uint64_t number, std::string text) {
  const base::MutexLock lock(mutex_);
  const auto known = requested_.find(claimUid);
  if (known == requested_.end() || known->second.number != number) return false;
  known->second.text = std::move(text);
  known->second.readyAt = clock_.now();
  return true;
}

Explainer::Explained Explainer::explain() {
  Explained explained;
  std::size_t nodes = 0;
  while (auto requested = next()) {
    auto& [claimUid, one] = *requested;
    auto made = one.make();
    nodes += made.nodes;
    if (store(claimUid, one.number, std::move(made.text))) explained.queueKeys.push_back(std::move(one.queueKey));
    if (nodes < kMaxStepNodes) continue;
    const base::MutexLock lock(mutex_);
    explained.isMoreRequested = !order_.empty();
    break;
  }
  return explained;
}

std::size_t Explainer::claims() const {
  const base::MutexLock lock(mutex_);
  return requested_.size();
}

}  // namespace egpu::reconcile
