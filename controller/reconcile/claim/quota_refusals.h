// Claims that a quota refused, and the version of their namespace's quotas then. Lost with the process, which costs each
// claim one more look at the quotas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace egpu::reconcile {

/// Thread-safe.
class QuotaRefusals {
 public:
  /// The claim was refused under that version of its namespace's quotas.
  void refused(const std::string& claimUid, uint64_t version) {
    const std::lock_guard lock(mutex_);
    refused_[claimUid] = version;
  }
  /// Whether a claim whose status says that it was refused still is: as long as the quotas have the version that refused it or,
  /// if that is not known, the version of the first call. The answer under another version stays the same, as the claim's
  /// step and that of its gang both ask. No version: no quota of the namespace refuses.
  bool stillRefused(const std::string& claimUid, const std::optional<uint64_t>& version) {
    const std::lock_guard lock(mutex_);
    if (version) return refused_.try_emplace(claimUid, *version).first->second == *version;
    refused_.erase(claimUid);
    return false;
  }
  void forgetClaim(const std::string& claimUid) {
    const std::lock_guard lock(mutex_);
    refused_.erase(claimUid);
  }
  std::size_t claims() const {
    const std::lock_guard lock(mutex_);
    return refused_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t> refused_;  ///< by uid of the claim; guarded by mutex_
};

}  // namespace egpu::reconcile
