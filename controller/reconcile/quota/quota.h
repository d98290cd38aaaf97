// Reports the usage of ElasticGPUQuotas in their status and as metrics, and alerts near the limit. The limits are
// enforced with the placement decision (allocator/allocator.h), not here.
#pragma once

#include <chrono>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/allocator/allocator.h"
#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/base/mutex.h"
#include "controller/kube/event_sink.h"
#include "controller/reconcile/result.h"
#include "controller/reconcile/timeouts.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Condition of a quota: True while alertPercent of some limit is used.
inline constexpr std::string_view kNearLimit = "NearLimit";

/// Reconciles the key quota/<namespace>/<name>. Thread-safe; at most one thread per quota at a time.
class QuotaSync {
 public:
  QuotaSync(Writer& writer, cache::Stores& stores, allocator::Allocator& cluster, base::Clock& clock,
            const Timeouts& timeouts, base::Metrics& metrics, kube::EventSink& events)
      : writer_(writer),
        stores_(stores),
        cluster_(cluster),
        clock_(clock),
        timeouts_(timeouts),
        metrics_(metrics),
        events_(events) {}

  Outcome step(const core::ObjectKey& key, std::stop_token stop);

 private:
  using Status = v1alpha::ElasticGPUQuotaStatus;
  Status statusOf(const cache::Quota& quota, const scheduler::QuotaUsage& usage) const;
  void measure(const cache::Quota& quota, const scheduler::QuotaUsage& usage);
  void forget(const core::ObjectKey& key);

  Writer& writer_;
  cache::Stores& stores_;
  allocator::Allocator& cluster_;
  base::Clock& clock_;
  const Timeouts& timeouts_;
  base::Metrics& metrics_;
  kube::EventSink& events_;
  base::Mutex mutex_;
  struct WrittenStatus {
    base::Clock::Steady written{};       ///< time of the last write
    std::vector<std::string> resources;  ///< resources that have gauges
  };
  std::map<core::ObjectKey, WrittenStatus> written_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::reconcile
