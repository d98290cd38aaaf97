// Copy of the scheduler's cluster for searches that run without the allocator's lock. All searches share one copy until
// the cluster changes.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "controller/allocator/cluster_observer.h"

namespace egpu::allocator {

/// Not thread-safe. A copy that was returned may be read by any thread.
class SnapshotCache {
 public:
  std::shared_ptr<const scheduler::Cluster> snapshotOf(const ObservedCluster& cluster) {
    if (!snapshot_ || changes_ != cluster.changes()) {
      snapshot_ = std::make_shared<const scheduler::Cluster>(cluster);  // without the listener
      changes_ = cluster.changes();
      ++copies_;
    }
    return snapshot_;
  }
  /// Returns the snapshot if the cluster has changed since, and forgets it; otherwise null. The caller destroys it
  /// without the lock, because it is large.
  std::shared_ptr<const scheduler::Cluster> takeOutdated(const ObservedCluster& cluster) {
    return snapshot_ && changes_ != cluster.changes() ? std::move(snapshot_) : nullptr;
  }
  /// Number of copies made so far.
  uint64_t copies() const { return copies_; }

 private:
  std::shared_ptr<const scheduler::Cluster> snapshot_;  ///< null if none was needed since the last change
  uint64_t changes_ = 0;                                ///< ObservedCluster::changes() when it was made
  uint64_t copies_ = 0;
};

}  // namespace egpu::allocator
