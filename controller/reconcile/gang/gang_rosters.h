// Members of each gang as its last step chose them, so that a step of one member need not look at all. In memory: another process
// chooses anew, those first that have a device already.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "api/core/meta.h"
#include "api/v1alpha/gang.h"

namespace egpu::reconcile {

struct GangRoster {
  struct Member {
    core::ObjectKey claim;
    std::string uid;
    bool operator==(const Member&) const = default;
  };
  v1alpha::Gang gang;
  std::vector<Member> members;                  ///< the oldest first; of a PodGroup the claims of its first pods
  std::unordered_set<std::string> uids;         ///< of these
  std::unordered_set<std::string> furtherUids;  ///< claims of a PodGroup's further pods
  Member definer;                               ///< the member whose annotations say size and topology
  Member speaker;         ///< the oldest member that nothing is decided for; without uid: there is none
  std::string standsOn;   ///< node of a member that has its device; empty: none has
  std::string lacks;      ///< empty, or why nothing can be decided
  bool full = false;      ///< no further claim, or pod of a PodGroup, is needed
  bool gone = false;      ///< members that are missing have Succeeded; of a PodGroup, some have
  bool bound = false;     ///< all members are Bound, and none is missing
  bool hasCards = false;  ///< all members have their cards, and none is missing

  /// The gang needs no more claims, and this one is none of its members: its step need not wake the gang.
  bool excludes(const std::string& claimUid) const { return full && !gang.podGroup && !uids.contains(claimUid); }
};

/// By gang: namespace and name, a PodGroup's with a slash before its name. Thread-safe.
class GangRosters {
 public:
  using Ptr = std::shared_ptr<const GangRoster>;

  /// Null: no step has chosen yet.
  Ptr of(const core::ObjectKey& gang) const {
    const std::lock_guard lock(mutex_);
    const auto known = rosters_.find(gang.str());
    return known == rosters_.end() ? nullptr : known->second;
  }
  Ptr set(const core::ObjectKey& gang, GangRoster roster) {
    auto shared = std::make_shared<const GangRoster>(std::move(roster));
    const std::lock_guard lock(mutex_);
    rosters_[gang.str()] = shared;
    return shared;
  }
  void erase(const core::ObjectKey& gang) {
    const std::lock_guard lock(mutex_);
    rosters_.erase(gang.str());
    withoutCards_.erase(gang.str());
  }
  /// Position, among the members, of the one that a step last found without its cards; 0: none was found.
  std::size_t firstWithoutCards(const core::ObjectKey& gang) const {
    const std::lock_guard lock(mutex_);
    const auto known = withoutCards_.find(gang.str());
    return known == withoutCards_.end() ? 0 : known->second;
  }
  /// Nothing is noted of a gang without a roster.
  void noteWithoutCards(const core::ObjectKey& gang, std::size_t member) {
    const std::lock_guard lock(mutex_);
    if (rosters_.contains(gang.str())) withoutCards_[gang.str()] = member;
  }
  /// A step found that all members of this roster have their cards. Another roster, made meanwhile, stays as it is.
  void noteCards(const core::ObjectKey& gang, const Ptr& roster) {
    auto noted = std::make_shared<GangRoster>(*roster);
    noted->hasCards = true;
    const std::lock_guard lock(mutex_);
    const auto known = rosters_.find(gang.str());
    if (known != rosters_.end() && known->second == roster) known->second = std::move(noted);
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return rosters_.size();
  }

 private:
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::map<std::string, Ptr> rosters_;
  std::map<std::string, std::size_t> withoutCards_;  ///< of gangs that have a roster
};

}  // namespace egpu::reconcile
