#include "controller/reconcile/priority/shared_plans.h"

#include <algorithm>

#include "controller/reconcile/gang/membership.h"

namespace egpu::reconcile {

namespace {
constexpr int kMaxTtls = 3;  ///< in planTtls: age up to which a result is used while one caller renews it
}  // namespace

std::optional<Batches::Batch> Batches::next() {
  const base::MutexLock lock(mutex_);
  if (next_ >= size_) return std::nullopt;
  const Batch batch{next_, std::min(size_, next_ + kBatch), round_};
  next_ = batch.to;
  return batch;
}

void Batches::done(const Batch& batch) {
  const base::MutexLock lock(mutex_);
  if (batch.round == round_) done_ += batch.to - batch.from;
}

void Batches::startOver() {
  const base::MutexLock lock(mutex_);
  next_ = done_ = 0;
  ++round_;
}

bool Batches::allDone() const {
  const base::MutexLock lock(mutex_);
  return done_ >= size_;
}

std::string SharedPlans::keyOf(const cache::Claim& claim) {
  const auto gang = gangNamedBy(claim);
  return gang ? gang->str() : std::string();
}

std::shared_ptr<const SharedPlan> SharedPlans::find(const std::string& key) {
  if (key.empty()) return nullptr;
  const base::MutexLock lock(mutex_);
  const auto known = checked_.find(key);
  if (known == checked_.end() || !known->second.stands) return nullptr;
  auto& checked = known->second;
  const auto now = clock_.now();
  if (now - checked.renewedAt >= timeouts_.planTtl) {
    checked.renewedAt = now;
    return nullptr;
  }
  return now - checked.at < kMaxTtls * timeouts_.planTtl ? checked.plan : nullptr;
}

std::shared_ptr<const SharedPlan> SharedPlans::recent(const std::string& key) const {
  const base::MutexLock lock(mutex_);
  const auto known = checked_.find(key);
  if (known == checked_.end() || !known->second.stands) return nullptr;
  return clock_.now() - known->second.at < kMaxTtls * timeouts_.planTtl ? known->second.plan : nullptr;
}

std::shared_ptr<const SharedPlan> SharedPlans::last(const std::string& key) const {
  const base::MutexLock lock(mutex_);
  const auto known = checked_.find(key);
  return known == checked_.end() || !known->second.stands ? nullptr : known->second.plan;
}

std::optional<SharedPlans::AwaitedVersion> SharedPlans::awaited(const std::string& key) const {
  const base::MutexLock lock(mutex_);
  const auto known = awaited_.find(key);
  const bool valid = known != awaited_.end() && clock_.now() - known->second.since < kMaxTtls * timeouts_.planTtl;
  return valid ? std::optional(known->second) : std::nullopt;
}

void SharedPlans::await(const std::string& key, uint64_t version, std::optional<ClaimListing> listing) {
  const base::MutexLock lock(mutex_);
  const auto now = clock_.now();
  std::erase_if(awaited_,
                [this, now](const auto& each) { return now - each.second.since >= kMaxTtls * timeouts_.planTtl; });
  awaited_[key] = {version, now, std::move(listing)};
}

void SharedPlans::endAwait(const std::string& key) {
  const base::MutexLock lock(mutex_);
  awaited_.erase(key);
}

std::shared_ptr<const SharedPlan> SharedPlans::put(const std::string& key, SharedPlan plan, uint64_t generation) {
  const base::MutexLock lock(mutex_);
  const auto now = clock_.now();
  std::erase_if(checked_, [this, now](const auto& each) { return now - each.second.at >= timeouts_.budgetTtl; });
  const auto known = checked_.find(key);
  const bool same = known != checked_.end() && known->second.plan->victims == plan.victims;
  plan.budgetsAsked = same ? known->second.plan->budgetsAsked : std::make_shared<Batches>(plan.victims.size());
  auto shared = std::make_shared<const SharedPlan>(std::move(plan));
  if (generation == generation_) checked_[key] = {shared, now, now, true};
  return shared;
}

void SharedPlans::forget(const std::string& key) {
  const base::MutexLock lock(mutex_);
  ++generation_;
  if (const auto known = checked_.find(key); known != checked_.end()) known->second.stands = false;
}

}  // namespace egpu::reconcile
