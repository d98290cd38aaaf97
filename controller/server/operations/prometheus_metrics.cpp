#include "controller/server/operations/prometheus_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <map>
#include <utility>

#include "controller/base/mutex.h"
#include "controller/base/printable.h"

namespace egpu::server {

namespace {

constexpr auto kHelp = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"elasticgpu_workqueue_depth", "Keys in the queue that wait for a worker."},
    {"elasticgpu_workqueue_adds_total", "Keys added to the queue."},
    {"elasticgpu_workqueue_retries_total", "Keys requeued with a delay after a failure."},
    {"elasticgpu_workqueue_queue_duration_seconds", "Time that a key waits for a worker once it is ready."},
    {"elasticgpu_workqueue_work_duration_seconds", "Time that a worker spends on a key."},
    {"elasticgpu_reconcile_duration_seconds", "Duration of one reconcile step of one object, by concern."},
    {"elasticgpu_reconciles_total", "Reconcile steps by concern and result: done, again, retry."},
    {"elasticgpu_decisions_total", "Scheduler decisions by result: fits, no_fit."},
    {"elasticgpu_decision_seconds", "Duration of one scheduler decision and its assumption."},
    {"elasticgpu_journal_records_total", "Records written to the decision journal."},
    {"elasticgpu_journal_lost_total", "Records that the decision journal dropped, for lack of memory or disk space."},
    {"elasticgpu_api_requests_total", "Requests to the API server by verb and code."},
    {"elasticgpu_api_request_duration_seconds", "Duration of a request to the API server, including retries."},
    {"elasticgpu_api_writes_total", "Writes to the API server by verb and resource."},
    {"elasticgpu_reflector_lists_total", "Full lists by resource and by method: list, watchlist."},
    {"elasticgpu_reflector_events_total", "Watch events by resource and type."},
    {"elasticgpu_leader", "1 while this process holds the lease, or works without elections."},
    {"elasticgpu_lease_attempts_total", "Attempts to get or renew the lease by result: ok, held by another, failed."},
    {"elasticgpu_events_total", "Kubernetes events by result."},
    {"elasticgpu_extender_duration_seconds", "Duration of an answer to a scheduler by verb."},
    {"elasticgpu_cards", "Cards by state: free, partly, full, quarantined."},
    {"elasticgpu_card_core_allocated_millicards", "Charged milli-cards of a card; with --card-metrics."},
    {"elasticgpu_card_memory_allocated_bytes", "Charged bytes of a card; with --card-metrics."},
    {"elasticgpu_claims", "Claims by phase."},
    {"elasticgpu_quota_used",
     "Usage of an ElasticGPUQuota by its namespace's claims, by resource: cards, bytes, TFLOPS, claims, MIG "
     "instances."},
    {"elasticgpu_quota_hard", "Limit of an ElasticGPUQuota, by resource: cards, bytes, TFLOPS, claims, MIG instances."},
    {"elasticgpu_claims_that_fit", "Number of further claims of a class, each of its usual size, that would fit now."},
    {"elasticgpu_claims_that_fit_age_seconds", "Age of elasticgpu_claims_that_fit in seconds."},
    {"elasticgpu_plugin_calls_total", "Calls to a plugin by slot and outcome."},
    {"elasticgpu_plugin_call_seconds", "Duration of a call to a plugin."},
    {"elasticgpu_plugin_downs_total", "Plugin host process exits, including kills by the supervisor."},
    {"elasticgpu_devices_held", "Devices retained for running pods although their claim or its ResourceClaim is gone."},
    {"elasticgpu_status_alternations_total",
     "Writes of a status that alternates between the same contents although the spec does not change, by kind."},
    {"elasticgpu_ledger_drift_total", "Drift that the auditor found, by cause."},
    {"elasticgpu_agent_prepare_seconds",
     "Duration of preparing a claim for the kubelet, by result: ok, failed, cancelled."},
    {"elasticgpu_agent_unprepare_seconds", "Duration of unpreparing a claim for the kubelet, by result."},
    {"elasticgpu_card_memory_used_bytes", "Bytes of a card in use by programs, without the driver's own."},
    {"elasticgpu_card_sm_utilisation_ratio",
     "Fraction of a short recent time in which a card's SMs were busy, 0 to 1."},
    {"elasticgpu_card_processes", "Processes that compute on a card."},
    {"elasticgpu_claim_memory_used_bytes", "Bytes of a card in use by the processes of a claim's pod."},
    {"elasticgpu_claim_sm_utilisation_ratio", "Fraction of a card's SM time used by a claim's pod, 0 to 1."},
    {"elasticgpu_claim_processes", "Processes of a claim's pod that compute on a card."},
    {"elasticgpu_claim_memory_limit_bytes", "Bytes of a card that a claim was granted."},
    {"elasticgpu_claim_core_limit_ratio", "Fraction of a card's compute that a claim was granted, 0 to 1."},
    {"elasticgpu_claim_series_left_out", "Claims' pods on cards that are not shown: a node shows 1,024."},
    {"elasticgpu_mig_instance_info", "1, labelled with a MIG instance and the claim that has it."},
    {"elasticgpu_build_info", "1, labelled with the running version."},
    {"elasticgpu_longest_step_seconds", "Longest time that a worker has spent on its current key."},
    {"process_cpu_seconds_total", "Total user and system CPU time spent in seconds."},
    {"process_resident_memory_bytes", "Resident memory size in bytes."},
    {"process_virtual_memory_bytes", "Virtual memory size in bytes."},
    {"process_open_fds", "Number of open file descriptors."},
    {"process_max_fds", "Maximum number of open file descriptors."},
    {"process_threads", "Number of threads."},
    {"process_start_time_seconds", "Start time of the process since unix epoch in seconds."},
});

/// Makes control characters in label values visible. Users choose label values, and the text format escapes only
/// newlines.
class Clean {
 public:
  explicit Clean(const base::MetricLabels& labels) : labels_(&labels) {
    for (const auto& [name, value] : labels) {
      if (!base::hasControls(value)) continue;
      if (own_.empty()) own_ = labels;
      own_[name] = base::printable(value);
      labels_ = &own_;
    }
  }
  const base::MetricLabels& operator*() const { return *labels_; }

 private:
  base::MetricLabels own_;
  const base::MetricLabels* labels_;
};

std::string helpOf(std::string_view name) {
  for (const auto& [n, help] : kHelp)
    if (n == name) return std::string(help);
  return std::string(name);
}

// From 10 µs (a decision) to 5 min (a stuck worker), about three per decade.
const prometheus::Histogram::BucketBoundaries kSeconds = {0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03,
                                                          0.1,     0.3,     1,      3,      10,    30,    100,  300};

}  // namespace

struct PrometheusMetrics::Families {
  base::Mutex mutex;  // for the three maps; the families themselves are thread-safe
  prometheus::Registry registry;
  std::map<std::string, prometheus::Family<prometheus::Counter>*, std::less<>> counters EGPU_GUARDED_BY(mutex);
  std::map<std::string, prometheus::Family<prometheus::Gauge>*, std::less<>> gauges EGPU_GUARDED_BY(mutex);
  std::map<std::string, prometheus::Family<prometheus::Histogram>*, std::less<>> histograms EGPU_GUARDED_BY(mutex);

  template <class Map, class Build>
  auto& family(Map Families::*kind, std::string_view name, Build build) {
    base::MutexLock lock(mutex);
    auto& map = this->*kind;
    auto it = map.find(name);
    if (it == map.end())
      it = map.emplace(std::string(name), &build().Name(std::string(name)).Help(helpOf(name)).Register(registry)).first;
    return *it->second;
  }
};

PrometheusMetrics::PrometheusMetrics() : families_(std::make_unique<Families>()) {}
PrometheusMetrics::~PrometheusMetrics() = default;

void PrometheusMetrics::add(std::string_view counter, double by, const base::MetricLabels& labels) {
  families_->family(&Families::counters, counter, prometheus::BuildCounter).Add(*Clean(labels)).Increment(by);
}
void PrometheusMetrics::set(std::string_view gauge, double value, const base::MetricLabels& labels) {
  families_->family(&Families::gauges, gauge, prometheus::BuildGauge).Add(*Clean(labels)).Set(value);
}
void PrometheusMetrics::observe(std::string_view histogram, double seconds, const base::MetricLabels& labels) {
  families_->family(&Families::histograms, histogram, prometheus::BuildHistogram)
      .Add(*Clean(labels), kSeconds)
      .Observe(seconds);
}
void PrometheusMetrics::forget(std::string_view gauge, const base::MetricLabels& labels) {
  auto& f = families_->family(&Families::gauges, gauge, prometheus::BuildGauge);
  f.Remove(&f.Add(*Clean(labels)));
}
std::string PrometheusMetrics::text() const {
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace egpu::server
