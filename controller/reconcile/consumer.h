// Pods that use claims: the first consumer chooses a node for all its claims together, and a gated pod is let go once
// they are carried.
#pragma once

#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "controller/cache/cluster_view.h"
#include "controller/reconcile/binder.h"
#include "controller/reconcile/carrier.h"
#include "controller/reconcile/claim.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/waiting.h"

namespace egpu::reconcile {

/// Thread-safe, one thread per pod at a time.
class Consumer {
 public:
  Consumer(Writer& writer, cache::Stores& stores, cache::ClusterView& cluster, Binder& binder, ClaimSync& claims,
           ClaimStatus& status, Waiting& waiting, kube::EventSink& events)
      : writer_(writer),
        stores_(stores),
        cluster_(cluster),
        binder_(binder),
        claims_(claims),
        status_(status),
        waiting_(waiting),
        events_(events) {}

  Outcome step(const core::ObjectKey& key, std::stop_token stop);

 private:
  using ClaimPtr = cache::Store<cache::Claim>::Ptr;
  using GpuPtr = cache::Store<cache::Gpu>::Ptr;
  struct Used {
    ClaimPtr claim;
    GpuPtr device;  ///< null: none yet
  };
  Outcome choose(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop);
  Outcome letGo(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop);  // W9
  std::string unsuitedNodes(const core::Pod& pod) const;  ///< how many, and why; empty: none
  /// An event on a gated pod, once per claim and reason: who looks at the pod must see what it waits for.
  void tell(const core::Pod& pod, const std::string& claim, std::string_view why, const std::string& message);
  void tellConditions(const core::Pod& pod, const std::vector<Used>& used);

  Writer& writer_;
  cache::Stores& stores_;
  cache::ClusterView& cluster_;
  Binder& binder_;
  ClaimSync& claims_;
  ClaimStatus& status_;
  Waiting& waiting_;
  kube::EventSink& events_;
  std::mutex mutex_;
  std::map<core::ObjectKey, std::string> told_;  ///< what each gated pod was told last
};

}  // namespace egpu::reconcile
