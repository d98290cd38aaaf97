// What the pods on each node ask of it. Of all pods of the cluster only these sums are kept, whole only the few that
// use claims (stores.h).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "api/core/objects.h"
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

  /// Called, without the lock, after a pod left a node or came to ask less of it. Set before anything is seen.
  void onFreed(std::function<void(const std::string& node)> listener) { freed_ = std::move(listener); }

  /// A pod as it is now. It counts from the time it has a node until it is finished or gone, also while it is being
  /// deleted. An older state than the one known is ignored, unless a list tells it that began after that was seen: then
  /// the server's history went back.
  void seen(const core::Pod& pod);
  /// The pod of this uid is gone; empty: whichever has that name.
  void gone(const core::ObjectKey& key, std::string_view uid);
  /// All pods there are follow, one listed() at a time. At the end, those that were not among them are gone; plans of
  /// those that have no node yet are kept.
  void listBegins();
  void listed(const core::Pod& pod);
  void listEnds();

  /// A pod that has no node yet shall go to this one: it counts there until it has a node, is finished or gone, or is
  /// planned elsewhere. With `fits`, only if that holds for what else counts there; false if it doesn't. One look and
  /// one step: two pods can't be promised the same room.
  bool plan(const core::Pod& pod, const std::string& node, const std::function<bool(const Sum&)>& fits = {});
  /// It shall go nowhere any more. A pod that is on a node stays counted.
  void unplan(const core::ObjectKey& pod);

  /// What counts on the node but for one pod. leastPriority: pods below it are left out, as if they had been evicted.
  Sum of(std::string_view node, const core::ObjectKey& without, int64_t leastPriority = kAllPriorities) const;
  /// The same of pods that use no claims, so that no cards come free when they go, or that their controllers replace
  /// (holder_signs.h).
  Sum ofLastingPods(std::string_view node, const core::ObjectKey& without) const;

 private:
  using Sums = std::map<int64_t, Sum>;  ///< by priority
  struct Entry {
    std::string uid, node;
    uint64_t version = 0;
    int64_t priority = 0;
    PodRequests requests;
    bool planned = false;
    bool leaves = false;  ///< it uses claims, and is not replaced
    uint64_t list = 0;    ///< lists_ when it was put
  };
  // With mutex_ held.
  Sum sumOf(std::string_view node, const std::string& without, int64_t leastPriority) const;
  void count(const Entry& entry, int64_t sign);
  static void add(Sum& sum, const Entry& entry, int64_t sign);
  void put(const std::string& key, Entry entry, std::vector<std::string>& freed);
  void drop(const std::string& key, std::vector<std::string>& freed);
  void see(const core::Pod& pod, bool listed, std::vector<std::string>& freed);
  void tell(const std::vector<std::string>& freed) const;

  std::function<void(const std::string& node)> freed_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> pods_;   ///< by "namespace/name"; guarded by mutex_
  std::unordered_map<std::string, Sums> nodes_;   ///< guarded by mutex_
  std::unordered_map<std::string, Sum> lasting_;  ///< of pods that don't leave, by node; guarded by mutex_
  std::unordered_set<std::string> listed_;        ///< keys, between listBegins() and listEnds(); guarded by mutex_
  uint64_t lists_ = 0;                            ///< that have begun; guarded by mutex_
};

}  // namespace egpu::cache
