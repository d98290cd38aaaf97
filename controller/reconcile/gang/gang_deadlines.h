// Times since when members of gangs wait for other members. In memory only: after a restart the times begin again.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"

namespace egpu::reconcile {

/// Thread-safe.
class GangDeadlines {
 public:
  enum class What {
    cards,      ///< the member has its cards, another member has none
    whole,      ///< the member is Bound, another member has no cards
    provision,  ///< the member's provisioner fails
  };
  explicit GangDeadlines(base::Clock& clock) : clock_(clock) {}

  /// Returns for how long this state has lasted for the device. Starts the time if the state is new.
  std::chrono::milliseconds since(What what, const std::string& claimUid, const std::string& device) {
    const base::MutexLock lock(mutex_);
    const auto now = clock_.now();
    auto& known = times_[claimUid][what];
    if (known.device != device) known = {device, now};
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - known.from);
  }
  /// Ends the state. Returns whether it was set.
  bool over(What what, const std::string& claimUid) {
    const base::MutexLock lock(mutex_);
    const auto known = times_.find(claimUid);
    if (known == times_.end() || known->second.erase(what) == 0) return false;
    if (known->second.empty()) times_.erase(known);
    return true;
  }
  void forgetClaim(const std::string& claimUid) {
    const base::MutexLock lock(mutex_);
    times_.erase(claimUid);
  }
  std::size_t claims() const {
    const base::MutexLock lock(mutex_);
    return times_.size();
  }

 private:
  struct Since {
    std::string device;
    base::Clock::Steady from;
  };
  base::Clock& clock_;
  mutable base::Mutex mutex_;
  std::map<std::string, std::map<What, Since>> times_ EGPU_GUARDED_BY(mutex_);  ///< by the claim's uid
};

}  // namespace egpu::reconcile
