// Pods that use claims: the first consumer chooses a node for all its claims together, and a gated pod is let go once
// they are carried.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/cache/cluster_view.h"
#include "controller/reconcile/binder.h"
#include "controller/reconcile/bound_volumes.h"
#include "controller/reconcile/carrier.h"
#include "controller/reconcile/claim.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/node_choice.h"
#include "controller/reconcile/waiting.h"

namespace egpu::reconcile {

/// Thread-safe, one thread per pod at a time.
class Consumer {
 public:
  Consumer(Writer& writer, cache::Stores& stores, cache::ClusterView& cluster, Binder& binder, ClaimSync& claims,
           ClaimStatus& status, Waiting& waiting, BoundVolumes& volumes, kube::EventSink& events,
           std::function<void(const std::string& queueKey)> enqueue)
      : writer_(writer),
        stores_(stores),
        cluster_(cluster),
        binder_(binder),
        claims_(claims),
        status_(status),
        waiting_(waiting),
        volumes_(volumes),
        events_(events),
        enqueue_(std::move(enqueue)) {}

  Outcome step(const core::ObjectKey& key, std::stop_token stop);
  /// Pods left a node or ask less of it: who was only short of that is enqueued.
  void freed(const std::string& node);

 private:
  using ClaimPtr = cache::Store<cache::Claim>::Ptr;
  using GpuPtr = cache::Store<cache::Gpu>::Ptr;
  struct Used {
    ClaimPtr claim;
    GpuPtr device;  ///< null: none yet
  };
  /// The claims that the pod names; nothing if one of them isn't there to be used (said on the pod).
  std::optional<std::vector<Used>> claimsOf(const core::Pod& pod, std::stop_token stop);
  Outcome choose(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop);
  /// Where all of them go together; empty: nowhere, and `failed` is one that fits nowhere.
  std::vector<scheduler::Decision> decide(const std::vector<cache::ClusterView::Ask>& asks, NodeChoice& nodes,
                                          std::size_t* failed);
  Outcome letGo(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop);  // W9
  /// The pod may not be let go to its claims' node.
  Outcome unsuited(const core::Pod& pod, const std::vector<Used>& used, bool anyBound, const std::string& why,
                   std::stop_token stop);
  bool suitsAnotherPod(const core::Pod& pod, const std::vector<Used>& used, const core::Node& node) const;
  /// The pod counts on the node of its claims' devices, or, if there is none, nowhere.
  void plan(const core::Pod& pod, const std::vector<Used>& used);
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
  BoundVolumes& volumes_;
  kube::EventSink& events_;
  const std::function<void(const std::string& queueKey)> enqueue_;
  std::mutex mutex_;
  std::map<core::ObjectKey, std::string> told_;  ///< what each gated pod was told last; guarded by mutex_
  /// Pods that found nodes too short of CPU, memory or pods, and what they ask for; guarded by mutex_.
  std::map<core::ObjectKey, cache::PodRequests> short_;
};

}  // namespace egpu::reconcile
