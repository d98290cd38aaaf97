// The extender: what a scheduler that chooses nodes itself asks of us, as kube-scheduler calls it. A port of its own,
// with mutual TLS (http.h).
//
//   POST /extender/filter        which of the nodes can hold all of the pod's claims: what the decision itself would find
//                                there (scheduler/judge.h), without what is kept for others. A pod without claims: all of them, without a look at anything
//   POST /extender/prioritize    0 to 10 by the node policy of its first claim: 10 for those that the decision would take
//   POST /extender/bind          the claims get their devices there, then the pod its node (reconcile/pod/pod_binder.h)
//   POST /extender/preempt       of the nodes with their victims those where the pod's claims fit once the victims are gone
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/cache/cluster_view.h"
#include "controller/cache/stores.h"
#include "controller/codec/scheduling/extender.h"
#include "controller/http/http.h"
#include "controller/reconcile/reconciler.h"

namespace egpu::server {

/// Thread-safe. All references must outlive it.
class Extender final : public http::Handler {
 public:
  /// unavailable: why nothing can be answered now; empty if it can. bindWithin: until a binding is given up.
  Extender(const cache::Stores& stores, cache::ClusterView& cluster, reconcile::Reconciler& reconciler,
           base::Metrics& metrics, std::function<std::string()> unavailable,
           std::chrono::milliseconds bindWithin = kBindWithin)
      : stores_(stores),
        cluster_(cluster),
        reconciler_(reconciler),
        metrics_(metrics),
        unavailable_(std::move(unavailable)),
        bindWithin_(bindWithin) {}

  http::Response handle(const http::Request& request, std::stop_token stop) override;

  /// A Node object has some 10 kB: without nodeCacheCapable a body holds some 6,000 of them.
  static http::Limits limits();
  /// Less than the httpTimeout of 30 s that the samples give to the scheduler.
  static constexpr std::chrono::milliseconds kBindWithin{20'000};

  // The verbs by themselves: a body → an answer.
  http::Response filter(std::string_view body);
  http::Response prioritize(std::string_view body);
  http::Response bind(std::string_view body, std::stop_token stop);
  http::Response preempt(std::string_view body);

 private:
  struct Judged {
    std::vector<uint8_t> fate;  ///< as encodeFilterResult() has it
    std::vector<codec::FilterReason> reasons;
    std::vector<int64_t> liking;  ///< of those that pass, as NodeVerdict's
  };
  /// What ClusterView::judge() says of the first combination of the claims' alternatives that fits on each node.
  std::vector<scheduler::NodeVerdict> verdictsFor(const reconcile::PodDemand& demand,
                                                  std::span<const std::string_view> nodes,
                                                  const std::vector<std::string>& withoutDevices,
                                                  scheduler::Judge what);
  Judged judge(const codec::ExtenderArgs& args, const reconcile::PodDemand& demand, scheduler::Judge what);
  /// Devices of claims that go with one of these pods, on that node.
  std::vector<std::string> devicesOf(const codec::NodeVictims& victims) const;
  bool fitsWithout(const reconcile::PodDemand& demand, const codec::NodeVictims& victims);

  const cache::Stores& stores_;
  cache::ClusterView& cluster_;
  reconcile::Reconciler& reconciler_;
  base::Metrics& metrics_;
  const std::function<std::string()> unavailable_;
  const std::chrono::milliseconds bindWithin_;
};

}  // namespace egpu::server
