#include "controller/reconcile/quota/quota.h"

#include <algorithm>

#include "controller/base/timestamp.h"
#include "controller/reconcile/claim/conditions.h"

namespace egpu::reconcile {

namespace {

using scheduler::kQuotaKeys;
using scheduler::QuotaKey;

/// Lists the keys of which at least `percent` of the limit is used, separated by commas.
std::string nearLimit(const scheduler::Quota& quota, const scheduler::QuotaAmounts& used, int64_t percent) {
  std::string keys;
  for (std::size_t i = 0; i < kQuotaKeys; ++i)
    if (const auto& hard = quota.hard[i];
        hard && used[i] > 0 && static_cast<__int128>(used[i]) * 100 >= static_cast<__int128>(*hard) * percent)
      keys += (keys.empty() ? "" : ", ") + std::string(scheduler::nameOf(static_cast<QuotaKey>(i)));
  return keys;
}

base::MetricLabels labels(const core::ObjectKey& key, std::string_view resource) {
  return {{"namespace", key.namespace_}, {"quota", key.name}, {"resource", std::string(resource)}};
}

}  // namespace

QuotaSync::Status QuotaSync::statusOf(const cache::Quota& quota, const scheduler::QuotaAmounts& used) const {
  Status after;
  after.conditions = quota.status.conditions;
  const auto limits = scheduler::readQuota(quota);
  for (std::size_t i = 0; i < kQuotaKeys; ++i) {
    if (!limits.hard[i]) continue;
    const auto key = static_cast<QuotaKey>(i);
    const std::string name(scheduler::nameOf(key));
    after.used[name] = scheduler::quotaText(key, used[i]);
    after.summary[name] = after.used[name] + "/" + scheduler::quotaText(key, *limits.hard[i]);
  }
  const auto keys = nearLimit(limits, used, quota.spec.alertPercent);
  core::Condition near;
  near.type = std::string(kNearLimit);
  near.status = keys.empty() ? "False" : "True";
  near.reason = keys.empty() ? "Enough" : "AlmostUsed";
  if (!keys.empty()) near.message = std::to_string(quota.spec.alertPercent) + "% or more is used of " + keys;
  near.observedGeneration = quota.metadata.generation;
  const auto now = base::rfc3339(clock_.wall());
  setCondition(after.conditions, std::move(near), now);
  setModelsExist(after.conditions, stores_.models, limits.models, "spec.selector.models", quota.metadata.generation,
                 now);
  return after;
}

Outcome QuotaSync::step(const core::ObjectKey& key, std::stop_token stop) {
  const auto quota = stores_.quotas.get(key);
  const auto used = quota ? cluster_.queries().quotaUsed(key) : std::nullopt;
  if (!used) {
    forget(key);
    return Outcome::done();
  }
  measure(key, scheduler::readQuota(*quota), *used);
  const auto after = statusOf(*quota, *used);
  if (after == quota->status) return Outcome::done();
  {
    const base::MutexLock lock(mutex_);
    auto& last = written_[key].written;
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - last);
    if (last != base::Clock::Steady{} && passed < timeouts_.quotaInterval)
      return Outcome::after(timeouts_.quotaInterval - passed);
    last = clock_.now();
  }
  const auto* was = findCondition(quota->status.conditions, kNearLimit);
  const auto* is = findCondition(after.conditions, kNearLimit);
  const auto body =
      codec::patch::quotaStatus(quota->metadata.uid, quota->metadata.resourceVersion, quota->status, after);
  if (is->status == "True" && (was == nullptr || was->message != is->message)) {
    std::string amounts;
    for (const auto& [name, text] : after.summary) amounts += (amounts.empty() ? ": " : ", ") + name + " " + text;
    events_.event(kube::referenceTo(*quota), "Warning", "QuotaAlmostUsed", is->message + amounts);
  }
  // The event comes before the write, after which it would not be repeated: two events are better than none.
  const auto written = writer_.patch(*quota, body, "status", stop);
  return written.ok() ? Outcome::done() : Outcome::afterWrite(written.status());
}

void QuotaSync::measure(const core::ObjectKey& key, const scheduler::Quota& quota,
                        const scheduler::QuotaAmounts& used) {
  const base::MutexLock lock(mutex_);
  auto& known = written_[key];
  std::vector<std::string_view> keys;
  for (std::size_t i = 0; i < kQuotaKeys; ++i) {
    if (!quota.hard[i]) continue;
    const auto name = scheduler::nameOf(static_cast<QuotaKey>(i));
    // Base units: cards, bytes, TFLOPS.
    const double unit =
        i == static_cast<std::size_t>(QuotaKey::core) || i == static_cast<std::size_t>(QuotaKey::tflops) ? 1000 : 1;
    metrics_.set("elasticgpu_quota_used", static_cast<double>(used[i]) / unit, labels(key, name));
    metrics_.set("elasticgpu_quota_hard", static_cast<double>(*quota.hard[i]) / unit, labels(key, name));
    keys.push_back(name);
  }
  for (const auto name : known.keys) {
    if (std::find(keys.begin(), keys.end(), name) != keys.end()) continue;
    metrics_.forget("elasticgpu_quota_used", labels(key, name));
    metrics_.forget("elasticgpu_quota_hard", labels(key, name));
  }
  known.keys = std::move(keys);
}

void QuotaSync::forget(const core::ObjectKey& key) {
  const base::MutexLock lock(mutex_);
  const auto known = written_.find(key);
  if (known == written_.end()) return;
  for (const auto name : known->second.keys) {
    metrics_.forget("elasticgpu_quota_used", labels(key, name));
    metrics_.forget("elasticgpu_quota_hard", labels(key, name));
  }
  written_.erase(known);
}

}  // namespace egpu::reconcile
