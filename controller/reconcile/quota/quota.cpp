#include "controller/reconcile/quota/quota.h"

#include <algorithm>

#include "controller/base/timestamp.h"
#include "controller/reconcile/claim/conditions.h"

namespace egpu::reconcile {

namespace {

using scheduler::kQuotaKeys;
using scheduler::QuotaKey;

/// A limit in spec.hard.
struct CountedLimit {
  std::string resource;
  QuotaKey key;
  int64_t used, hard;
};

/// Returns the limits of a quota object that are counted.
std::vector<CountedLimit> limitsOf(const cache::Quota& quota, const scheduler::QuotaUsage& usage) {
  std::vector<CountedLimit> limits;
  for (const auto& part : scheduler::readQuotas(quota)) {
    const auto used = usage.find(part.profile);
    for (std::size_t i = 0; i < kQuotaKeys && used != usage.end(); ++i)
      if (const auto key = static_cast<QuotaKey>(i); part.hard[i])
        limits.push_back({scheduler::nameOf(key, part.profile), key, used->second[i], *part.hard[i]});
  }
  return limits;
}

/// Lists the resources of which at least `percent` of the limit is used, separated by commas.
std::string nearLimit(const std::vector<CountedLimit>& limits, int64_t percent) {
  std::string resources;
  for (const auto& [resource, key, used, hard] : limits)
    if (used > 0 && static_cast<__int128>(used) * 100 >= static_cast<__int128>(hard) * percent)
      resources += (resources.empty() ? "" : ", ") + resource;
  return resources;
}

base::MetricLabels labels(const core::ObjectKey& key, std::string_view resource) {
  return {{"namespace", key.namespace_}, {"quota", key.name}, {"resource", std::string(resource)}};
}

}  // namespace

QuotaSync::Status QuotaSync::statusOf(const cache::Quota& quota, const scheduler::QuotaUsage& usage) const {
  Status after;
  after.conditions = quota.status.conditions;
  const auto limits = limitsOf(quota, usage);
  for (const auto& [resource, key, used, hard] : limits) {
    after.used[resource] = scheduler::quotaText(key, used);
    after.summary[resource] = after.used[resource] + "/" + scheduler::quotaText(key, hard);
  }
  const auto keys = nearLimit(limits, quota.spec.alertPercent);
  core::Condition near;
  near.type = std::string(kNearLimit);
  near.status = keys.empty() ? "False" : "True";
  near.reason = keys.empty() ? "Enough" : "AlmostUsed";
  if (!keys.empty()) near.message = std::to_string(quota.spec.alertPercent) + "% or more is used of " + keys;
  near.observedGeneration = quota.metadata.generation;
  const auto now = base::rfc3339(clock_.wall());
  setCondition(after.conditions, std::move(near), now);
  setModelsExist(after.conditions, stores_.models, quota.spec.models, "spec.selector.models", quota.metadata.generation,
                 now);
  return after;
}

Outcome QuotaSync::step(const core::ObjectKey& key, std::stop_token stop) {
  const auto quota = stores_.quotas.get(key);
  const auto usage = quota ? cluster_.queries().quotaUsed(key) : scheduler::QuotaUsage{};
  if (usage.empty()) {
    forget(key);
    return Outcome::done();
  }
  measure(*quota, usage);
  const auto after = statusOf(*quota, usage);
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

void QuotaSync::measure(const cache::Quota& quota, const scheduler::QuotaUsage& usage) {
  const auto object = core::keyOf(quota.metadata);
  const base::MutexLock lock(mutex_);
  auto& known = written_[object];
  std::vector<std::string> resources;
  for (const auto& [resource, key, used, hard] : limitsOf(quota, usage)) {
    // Base units: cards, bytes, TFLOPS.
    const double unit = key == QuotaKey::core || key == QuotaKey::tflops ? 1000 : 1;
    metrics_.set("elasticgpu_quota_used", static_cast<double>(used) / unit, labels(object, resource));
    metrics_.set("elasticgpu_quota_hard", static_cast<double>(hard) / unit, labels(object, resource));
    resources.push_back(resource);
  }
  for (const auto& resource : known.resources) {
    if (std::find(resources.begin(), resources.end(), resource) != resources.end()) continue;
    metrics_.forget("elasticgpu_quota_used", labels(object, resource));
    metrics_.forget("elasticgpu_quota_hard", labels(object, resource));
  }
  known.resources = std::move(resources);
}

void QuotaSync::forget(const core::ObjectKey& key) {
  const base::MutexLock lock(mutex_);
  const auto known = written_.find(key);
  if (known == written_.end()) return;
  for (const auto& resource : known->second.resources) {
    metrics_.forget("elasticgpu_quota_used", labels(key, resource));
    metrics_.forget("elasticgpu_quota_hard", labels(key, resource));
  }
  written_.erase(known);
}

}  // namespace egpu::reconcile
