// The extender: the HTTP endpoints that kube-scheduler, or a scheduler with its protocol, calls while it chooses a
// node. It has a port of its own, with mutual TLS (http.h).
//
//   POST /extender/filter      nodes that can hold all claims of the pod, by the decision's rules
//                              (scheduler/score_nodes.h), without capacity held for other claims. A pod without claims:
//                              all nodes, unchecked
//   POST /extender/prioritize  0 to 10 by the node policy of its first claim: 10 for the nodes the decision would take
//   POST /extender/bind        binds the claims on the node, then the pod to it (reconcile/pod/pod_binder.h)
//   POST /extender/preempt     keeps the nodes where the pod's claims fit once the victims of the node are gone
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "controller/allocator/allocator.h"
#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/cache/stores.h"
#include "controller/codec/scheduling/extender.h"
#include "controller/http/http.h"
#include "controller/reconcile/reconciler.h"

namespace egpu::server {

/// Thread-safe. All references must outlive it.
class Extender final : public http::Handler {
 public:
  /// unavailable: returns why requests can't be answered now; empty if they can. bindWithin: timeout of a binding.
  Extender(const cache::Stores& stores, allocator::Allocator& cluster, reconcile::Reconciler& reconciler,
           base::Metrics& metrics, std::function<std::string()> unavailable,
           std::chrono::milliseconds bindWithin = kBindTimeout)
      : stores_(stores),
        cluster_(cluster),
        reconciler_(reconciler),
        metrics_(metrics),
        unavailable_(std::move(unavailable)),
        bindWithin_(bindWithin) {}

  http::Response handle(const http::Request& request, std::stop_token stop) override;

  /// A Node object has about 10 kB: without nodeCacheCapable the maximum body holds about 6,000 of them.
  static http::Limits limits();
  /// Less than the httpTimeout of 30 s that the samples configure for the scheduler.
  static constexpr std::chrono::milliseconds kBindTimeout{20'000};

  // The verbs: each takes a body and returns the answer.
  http::Response filter(std::string_view body);
  http::Response prioritize(std::string_view body);
  http::Response bind(std::string_view body, std::stop_token stop);
  http::Response preempt(std::string_view body);

 private:
  struct Judged {
    std::vector<uint8_t> fate;  ///< in the format of encodeFilterResult()
    std::vector<codec::FilterReason> reasons;
    std::vector<int64_t> score;  ///< NodeVerdict::score of the nodes that pass
  };
  /// Returns per node the Queries::scoreNodes() verdict for the first combination of the claims' alternatives that
  /// fits there.
  std::vector<scheduler::NodeVerdict> verdictsFor(const reconcile::PodDemand& demand,
                                                  std::span<const std::string_view> nodes,
                                                  const std::vector<std::string>& withoutDevices,
                                                  scheduler::Judge what);
  Judged scoreNodes(const codec::ExtenderArgs& args, const reconcile::PodDemand& demand, scheduler::Judge what);
  /// Returns the devices on that node whose claims end with one of these pods.
  std::vector<std::string> devicesOf(const codec::NodeVictims& victims) const;
  bool fitsWithout(const reconcile::PodDemand& demand, const codec::NodeVictims& victims);

  const cache::Stores& stores_;
  allocator::Allocator& cluster_;
  reconcile::Reconciler& reconciler_;
  base::Metrics& metrics_;
  const std::function<std::string()> unavailable_;
  const std::chrono::milliseconds bindWithin_;
};

}  // namespace egpu::server
