// Checks and repairs every card's ledger continuously, and writes the summary that people see on a card.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/allocator/allocator.h"
#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/base/mutex.h"
#include "controller/kube/event_sink.h"
#include "controller/reconcile/card/sweeper.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/timeouts.h"

namespace egpu::reconcile {

struct AuditorOptions {
  /// A card's status.allocated is written once it has been wrong for this long, so that a burst of binds costs one
  /// write. Negative: never.
  std::chrono::milliseconds summaryDelay{1000};
  /// Maximum delay of that write while claims are being bound or evicted, so that the summary delays neither.
  /// While only the amounts of a nominated card are outdated, the maximum is Timeouts::nominationReportDelay.
  std::chrono::milliseconds longestSummaryDelay{10'000};
};

/// The step of a card: hardware state, garbage, ledger, summary. Thread-safe; at most one thread per card at a time.
class Auditor {
 public:
  Auditor(Writer& writer, cache::Stores& stores, allocator::Allocator& cluster, Binder& binder, Sweeper& sweeper,
          base::Clock& clock, base::Metrics& metrics, kube::EventSink& events,
          std::function<void(const std::string&)> enqueue, std::function<bool()> binding, const Timeouts& timeouts,
          AuditorOptions options)
      : writer_(writer),
        stores_(stores),
        cluster_(cluster),
        binder_(binder),
        sweeper_(sweeper),
        clock_(clock),
        metrics_(metrics),
        events_(events),
        enqueue_(std::move(enqueue)),
        binding_(std::move(binding)),
        timeouts_(timeouts),
        options_(options) {}

  Outcome step(const std::string& card, std::stop_token stop);
  /// Checks decisions that count although no device of their claim is known. A decision that is a minute old and was
  /// neither written nor repeated is drift, and is forgotten. Done once there are no decisions left.
  Outcome assumed(std::stop_token stop);

  /// Number of problems found since the start, by cause; for tests and the operations page.
  std::map<std::string, int64_t> drift() const;

 private:
  Outcome updateHardware(const cache::Gpu& card, bool* changed,
                         std::stop_token stop);  ///< node gone → Failed, back → Available
  void checkLedger(const cache::Gpu& card);
  static bool agrees(const cache::Gpu& device, const v1alpha::DeviceCard& share, const v1alpha::LedgerEntry& entry);
  Outcome summary(const std::string& name, std::stop_token stop);
  bool awaitsPreemptor(const cache::Gpu& card, const v1alpha::ElasticGPUStatus& after) const;
  std::string deletionMessage(const cache::Gpu& card) const;
  void judge(const cache::Gpu& card, const v1alpha::AllocatedSummary& sum, v1alpha::ElasticGPUStatus& after) const;
  /// Sets condition SharesFit to False while the card has less memory than its shares hold, else removes it.
  void judgeShares(const cache::Gpu& card, v1alpha::ElasticGPUStatus& after) const;
  struct Drift {
    std::string cause, detail;
    auto operator<=>(const Drift&) const = default;
  };
  /// Reports the drift that the last check did not find.
  void report(const cache::Gpu& card, std::set<Drift> found);
  void report(const cache::Gpu& card, const Drift& drift);
  /// Checks a decision that is too old and forgets it. Returns false if the server could not be asked.
  bool repair(const allocator::AssumedDecision& decision, std::stop_token stop);

  Writer& writer_;
  cache::Stores& stores_;
  allocator::Allocator& cluster_;
  Binder& binder_;
  Sweeper& sweeper_;
  base::Clock& clock_;
  base::Metrics& metrics_;
  kube::EventSink& events_;
  const std::function<void(const std::string&)> enqueue_;
  const std::function<bool()> binding_;  ///< true while claims are being bound or evicted
  const Timeouts& timeouts_;
  const AuditorOptions options_;
  mutable base::Mutex mutex_;
  std::map<std::string, base::Clock::Steady> wrongSince_ EGPU_GUARDED_BY(mutex_);
  std::map<std::string, std::set<Drift>> reported_ EGPU_GUARDED_BY(mutex_);  ///< card → drift that is reported
  std::map<std::string, int64_t> drift_ EGPU_GUARDED_BY(mutex_);
  std::map<uint64_t, base::Clock::Steady> assumedSince_ EGPU_GUARDED_BY(mutex_);  ///< by the decision's number
};

}  // namespace egpu::reconcile
