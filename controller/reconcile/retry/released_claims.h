// Claims whose device is Released, is being deleted by this process, or was found to be gone by a quorum read: no pod
// uses it, and none can from then on. Lost when the process ends, which costs two reads per claim.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>

#include "controller/base/mutex.h"

namespace egpu::reconcile {

/// Thread-safe.
class ReleasedClaims {
 public:
  void add(const std::string& claimUid) {
    const base::MutexLock lock(mutex_);
    uids_.insert(claimUid);
  }
  bool contains(const std::string& claimUid) const {
    const base::MutexLock lock(mutex_);
    return uids_.contains(claimUid);
  }
  void forgetClaim(const std::string& claimUid) {
    const base::MutexLock lock(mutex_);
    uids_.erase(claimUid);
  }
  std::size_t claims() const {
    const base::MutexLock lock(mutex_);
    return uids_.size();
  }

 private:
  mutable base::Mutex mutex_;
  std::unordered_set<std::string> uids_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::reconcile
