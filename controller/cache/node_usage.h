// Sums of the requests of all pods, per node. Only the few pods that use claims are stored as objects (stores.h).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "api/core/objects.h"
#include "controller/base/mutex.h"
#include "controller/cache/pod_requests.h"

namespace egpu::cache {

/// Thread-safe.
class NodeUsage {
 public:
  struct Sum {
    PodRequests requests;
    int64_t pods = 0;
    bool operator==(const Sum&) const = default;
  };
  static constexpr int64_t kAllPriorities = std::numeric_limits<int64_t>::min();

  NodeUsage() = default;
  NodeUsage(const NodeUsage&) = delete;
  NodeUsage& operator=(const NodeUsage&) = delete;

  /// Sets the callback after a pod left a node, or its requests there shrank. It is called without the lock. Set before
  /// the first pod.
  void onFreed(std::function<void(const std::string& node)> listener) { freed_ = std::move(listener); }

  /// Records the current state of a pod. A pod counts from the time it has a node until it is finished or gone, also
  /// while it is being deleted. A state older than the known one is ignored, unless it comes from a list that began
  /// after the known state was recorded: then the server's history went back.
  void seen(const core::Pod& pod);
  /// Records that the pod of this uid (empty = any pod of that name) is gone.
  void gone(const core::ObjectKey& key, std::string_view uid);
  /// A list of all pods follows: one listed() per pod. listEnds() drops the pods that were not listed; it keeps plans
  /// of listed pods that have no node yet.
  void listBegins();
  void listed(const core::Pod& pod);
  void listEnds();

  /// Plans a pod without a node for this node: it counts there until it has a node, is finished or gone, or is planned
  /// elsewhere. With `fits`, plans only if `fits` accepts the sum of the node's other pods, and returns false
  /// otherwise. Check and plan are one step, so two pods cannot get the same capacity.
  bool plan(const core::Pod& pod, const std::string& node, const std::function<bool(const Sum&)>& fits = {});
  /// Ends the pod's plan. A pod that is on a node stays counted.
  void unplan(const core::ObjectKey& pod);

  /// Sum of the node's pods, without one pod and without pods below leastPriority, as if those had been evicted.
  Sum of(std::string_view node, const core::ObjectKey& without, int64_t leastPriority = kAllPriorities) const;
  /// Sum of the node's pods whose end frees no cards: pods that use no claims, and pods that their controllers replace
  /// (holder_signs.h).
  Sum ofLastingPods(std::string_view node, const core::ObjectKey& without) const;

 private:
  using Sums = std::map<int64_t, Sum>;  ///< by priority
  struct PodUsage {
    std::string uid, node;
    uint64_t version = 0;
    int64_t priority = 0;
    PodRequests requests;
    bool planned = false;
    bool leaves = false;  ///< the pod uses claims, and is not replaced
    uint64_t list = 0;    ///< lists_ when the entry was put
  };
  Sum sumOf(std::string_view node, const std::string& without, int64_t leastPriority) const EGPU_REQUIRES(mutex_);
  void count(const PodUsage& entry, int64_t sign) EGPU_REQUIRES(mutex_);
  static void add(Sum& sum, const PodUsage& entry, int64_t sign);
  void put(const std::string& key, PodUsage entry, std::vector<std::string>& freed) EGPU_REQUIRES(mutex_);
  void drop(const std::string& key, std::vector<std::string>& freed) EGPU_REQUIRES(mutex_);
  void see(const core::Pod& pod, bool listed, std::vector<std::string>& freed) EGPU_REQUIRES(mutex_);
  void notify(const std::vector<std::string>& freed) const;

  std::function<void(const std::string& node)> freed_;
  mutable base::Mutex mutex_;
  std::unordered_map<std::string, PodUsage> pods_ EGPU_GUARDED_BY(mutex_);  ///< by "namespace/name"
  std::unordered_map<std::string, Sums> nodes_ EGPU_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Sum> lasting_ EGPU_GUARDED_BY(mutex_);  ///< pods that do not leave, by node
  std::unordered_set<std::string> listed_ EGPU_GUARDED_BY(mutex_);        ///< keys, between listBegins() and listEnds()
  uint64_t lists_ EGPU_GUARDED_BY(mutex_) = 0;                            ///< number of lists that have begun
};

}  // namespace egpu::cache
