// Claims and pods that a quota keeps waiting, by namespace, in queue order; and claims that a quota refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/reconcile/claim/waiting_for_room.h"

namespace egpu::reconcile {

/// Thread-safe.
class WaitingForQuota {
 public:
  /// This queue key, of a claim or pod so old. Noted before it is decided: what is given back from then on is not missed.
  void add(const std::string& namespace_, const std::string& queueKey, const Age& age, int64_t priority = 0);
  void remove(const std::string& queueKey);
  /// Keys of the namespace, the highest priority first, then the oldest, to be tried again (they stay until removed).
  std::vector<std::string> of(const std::string& namespace_) const;
  std::size_t size() const;

  /// The claim was refused under that version of its namespace's quotas.
  void refused(const std::string& claimUid, uint64_t version);
  /// Whether a claim that says that it was refused still is: as long as the quotas are those that refused it, or, if
  /// that is forgotten, those that this was asked of first. The answer under other quotas stays the same, as the claim's step and
  /// that of its gang both ask. Nothing: no quota of the namespace refuses.
  bool stillRefused(const std::string& claimUid, const std::optional<uint64_t>& version);
  void forgetClaim(const std::string& claimUid);
  std::size_t claims() const;

 private:
  mutable std::mutex mutex_;                                                     // guards all below
  std::map<std::string, std::set<std::pair<QueueOrder, std::string>>> waiting_;  ///< by namespace
  std::map<std::string, std::pair<std::string, QueueOrder>> keys_;               ///< the same by queue key
  std::map<std::string, uint64_t> refused_;
};

}  // namespace egpu::reconcile
