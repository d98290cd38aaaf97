// Adds the requests of pending claims to the demand statistics of the scheduler's cluster, once per claim however often
// it is retried.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>

#include "controller/allocator/cluster_observer.h"

namespace egpu::allocator {

/// Not thread-safe.
class DemandStatistics {
 public:
  static constexpr std::size_t kMaxClaims = 65'536;

  void record(ObservedCluster& cluster, const std::string& claimUid, const scheduler::Request& request) {
    if (request.adminAccess) return;           // takes no capacity
    if (!request.mig.profile.empty()) return;  // takes capacity that no other request can have
    if (recorded_.size() >= kMaxClaims) recorded_.clear();
    if (recorded_.insert(claimUid).second) cluster.observe(request);
  }
  /// The claim is not pending any more. If it is pending again later, it counts again.
  void forget(const std::string& claimUid) { recorded_.erase(claimUid); }

 private:
  std::unordered_set<std::string> recorded_;  ///< uids; cleared at kMaxClaims, so that claims are then counted again
};

}  // namespace egpu::allocator
