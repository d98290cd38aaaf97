// The continuous check that every card's books are right, their repair, and the summary that people see on a card.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/cache/cluster_view.h"
#include "controller/kube/event_sink.h"
#include "controller/reconcile/card/sweeper.h"
#include "controller/reconcile/claim/binder.h"

namespace egpu::reconcile {

struct AuditorOptions {
  /// A card's status.allocated is written when it has been wrong that long, so that a burst of binds costs one write.
  /// Negative: never.
  std::chrono::milliseconds summaryDelay{1000};
  /// It waits up to this long while claims are bound: none is bound later for the sake of a column.
  std::chrono::milliseconds longestSummaryDelay{10'000};
};

/// A card's step: hardware state, garbage, books, summary. Thread-safe, one thread per card at a time.
class Auditor {
 public:
  Auditor(Writer& writer, cache::Stores& stores, cache::ClusterView& cluster, Binder& binder, Sweeper& sweeper,
          base::Clock& clock, base::Metrics& metrics, kube::EventSink& events,
          std::function<void(const std::string&)> enqueue, std::function<bool()> binding, AuditorOptions options)
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
        options_(options) {}

  Outcome step(const std::string& card, std::stop_token stop);
  /// Decisions that count although no device of their claim is known. One that is a minute old and neither written nor
  /// tried again is drift and is forgotten. Done once there is none.
  Outcome assumed(std::stop_token stop);

  /// Problems found since the start, by cause; for tests and the operations page.
  std::map<std::string, int64_t> drift() const;

 private:
  Outcome hardware(const cache::Gpu& card, bool* changed,
                   std::stop_token stop);  ///< node gone → Failed, back → Available
  void books(const cache::Gpu& card);
  static bool agrees(const cache::Gpu& device, const v1alpha::DeviceCard& share, const v1alpha::LedgerEntry& entry);
  Outcome summary(const std::string& name, std::stop_token stop);
  std::string leaving(const cache::Gpu& card) const;
  void judge(const cache::Gpu& card, const v1alpha::AllocatedSummary& sum, v1alpha::ElasticGPUStatus& after) const;
  /// Condition SharesFit, while the card has less memory than its shares hold.
  void judgeShares(const cache::Gpu& card, v1alpha::ElasticGPUStatus& after) const;
  struct Drift {
    std::string cause, detail;
    auto operator<=>(const Drift&) const = default;
  };
  /// Tells what was not found the last time.
  void tell(const cache::Gpu& card, std::set<Drift> found);
  void report(const cache::Gpu& card, const Drift& drift);
  /// False if the server could not be asked.
  bool repair(const cache::AssumedDecision& decision, std::stop_token stop);

  Writer& writer_;
  cache::Stores& stores_;
  cache::ClusterView& cluster_;
  Binder& binder_;
  Sweeper& sweeper_;
  base::Clock& clock_;
  base::Metrics& metrics_;
  kube::EventSink& events_;
  const std::function<void(const std::string&)> enqueue_;
  const std::function<bool()> binding_;  ///< whether claims are being bound
  const AuditorOptions options_;
  mutable std::mutex mutex_;  // guards all below
  std::map<std::string, base::Clock::Steady> wrongSince_;
  std::map<std::string, std::set<Drift>> reported_;  ///< card → what is wrong with it and was told
  std::map<std::string, int64_t> drift_;
  std::map<uint64_t, base::Clock::Steady> assumedSince_;  ///< by the decision's number
};

}  // namespace egpu::reconcile
