// Members of each gang as its last step chose them, so that a member's step need not read all of them. In memory only:
// after a restart members are chosen again, those with a device first.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "api/core/meta.h"
#include "api/v1alpha/gang.h"
#include "controller/base/mutex.h"

namespace egpu::reconcile {

struct GangRoster {
  struct Member {
    core::ObjectKey claim;
    std::string uid;
    bool operator==(const Member&) const = default;
  };
  v1alpha::Gang gang;
  std::vector<Member> members;                  ///< the oldest first; for a PodGroup: the claims of its first pods
  std::unordered_set<std::string> uids;         ///< of `members`
  std::unordered_set<std::string> furtherUids;  ///< claims of a PodGroup's further pods
  Member definer;                               ///< the member whose annotations give size and topology
  Member speaker;         ///< the oldest member without a device or decision, which reports for all; empty uid: none
  std::string standsOn;   ///< node of a member's device; empty: no member has one
  std::string lacks;      ///< why nothing can be decided; empty if it can
  bool full = false;      ///< no further claim is needed; for a PodGroup: no further pod
  bool gone = false;      ///< the pods of all missing members have Succeeded; for a PodGroup: a pod has Succeeded
  bool bound = false;     ///< all members here are Bound, and the gang waits for no further one
  bool hasCards = false;  ///< all members have their cards, and none is missing

  /// True if the gang needs no more claims and this claim is not a member: its step need not wake the gang.
  bool excludes(const std::string& claimUid) const { return full && !gang.podGroup && !uids.contains(claimUid); }
};

/// Rosters by gang: namespace and name; a PodGroup's name is prefixed with a slash. Thread-safe.
class GangRosters {
 public:
  using Ptr = std::shared_ptr<const GangRoster>;

  /// Returns null if no step of the gang has chosen its members yet.
  Ptr of(const core::ObjectKey& gang) const {
    const base::MutexLock lock(mutex_);
    const auto known = rosters_.find(gang.str());
    return known == rosters_.end() ? nullptr : known->second;
  }
  Ptr set(const core::ObjectKey& gang, GangRoster roster) {
    auto shared = std::make_shared<const GangRoster>(std::move(roster));
    const base::MutexLock lock(mutex_);
    rosters_[gang.str()] = shared;
    return shared;
  }
  void erase(const core::ObjectKey& gang) {
    const base::MutexLock lock(mutex_);
    rosters_.erase(gang.str());
    withoutCards_.erase(gang.str());
  }
  /// Returns the position of the member that a step last found without its cards, where the next search begins; 0 if
  /// none was found.
  std::size_t firstWithoutCards(const core::ObjectKey& gang) const {
    const base::MutexLock lock(mutex_);
    const auto known = withoutCards_.find(gang.str());
    return known == withoutCards_.end() ? 0 : known->second;
  }
  /// Records that position; ignored for a gang without a roster.
  void noteWithoutCards(const core::ObjectKey& gang, std::size_t member) {
    const base::MutexLock lock(mutex_);
    if (rosters_.contains(gang.str())) withoutCards_[gang.str()] = member;
  }
  /// Records that all members of this roster have their cards; ignored if another roster has replaced it.
  void noteCards(const core::ObjectKey& gang, const Ptr& roster) {
    auto noted = std::make_shared<GangRoster>(*roster);
    noted->hasCards = true;
    const base::MutexLock lock(mutex_);
    const auto known = rosters_.find(gang.str());
    if (known != rosters_.end() && known->second == roster) known->second = std::move(noted);
  }
  std::size_t size() const {
    const base::MutexLock lock(mutex_);
    return rosters_.size();
  }

 private:
  mutable base::Mutex mutex_;
  std::map<std::string, Ptr> rosters_ EGPU_GUARDED_BY(mutex_);
  std::map<std::string, std::size_t> withoutCards_ EGPU_GUARDED_BY(mutex_);  ///< only of gangs with a roster
};

}  // namespace egpu::reconcile
