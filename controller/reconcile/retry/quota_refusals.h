// Claims that a quota refused, with the version of their namespace's quotas at that time. Lost when the process ends;
// then each claim is checked against the quotas once more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "controller/base/mutex.h"

namespace egpu::reconcile {

/// Thread-safe.
class QuotaRefusals {
 public:
  /// Records that the claim was refused under that version of its namespace's quotas.
  void refused(const std::string& claimUid, uint64_t version) {
    const base::MutexLock lock(mutex_);
    refused_[claimUid] = version;
  }
  /// True if a claim whose status reports the refusal is still refused: while the quotas have the version that refused
  /// it or, if that is not known, the version of the first call. Repeated calls with another version return the same,
  /// because the claim's step and its gang's step both call this. No version: no quota of the namespace refuses claims.
  bool stillRefused(const std::string& claimUid, const std::optional<uint64_t>& version) {
    const base::MutexLock lock(mutex_);
    if (version) return refused_.try_emplace(claimUid, *version).first->second == *version;
    refused_.erase(claimUid);
    return false;
  }
  void forgetClaim(const std::string& claimUid) {
    const base::MutexLock lock(mutex_);
    refused_.erase(claimUid);
  }
  std::size_t claims() const {
    const base::MutexLock lock(mutex_);
    return refused_.size();
  }

 private:
  mutable base::Mutex mutex_;
  std::map<std::string, uint64_t> refused_ EGPU_GUARDED_BY(mutex_);  ///< by uid of the claim
};

}  // namespace egpu::reconcile
