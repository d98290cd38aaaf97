// Members of a gang, and whether they have their cards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/gang/gang_choice.h"
#include "controller/reconcile/gang/gang_rosters.h"
#include "controller/reconcile/gang/membership.h"

namespace egpu::reconcile {

/// Known members of a gang, the oldest first, at most its size. For a PodGroup: the claims of the first pods that
/// complete it. For a claim of a further pod: those and its own pod's claims, or only its own pod's if the others have
/// their cards.
struct GangMembers : GangChoice {
  std::size_t others = 0;        ///< members that are not in `here` and have their cards
  std::vector<ClaimPtr> open{};  ///< undecided members of `here`
  std::string standsOn{};        ///< node of a member that has its device; empty if none has
  bool memberLeaves = false;     ///< a member's device is being deleted; the member is open once it is gone
  bool has(const cache::Claim& claim) const {
    return std::any_of(here.begin(), here.end(), [&](const auto& m) { return m->metadata.uid == claim.metadata.uid; });
  }
};

/// Result of the check whether all members of a gang have their cards.
struct GangCards {
  bool all = false;  ///< all members have their cards, and none is missing
  ClaimPtr lacks{};  ///< otherwise a member without its cards; null if none is known
};

/// Reads caches only. Thread-safe; the context must outlive it.
class GangMembership {
 public:
  explicit GangMembership(const ClaimContext& context) : context_(context) {}

  /// Returns the members of the claim's gang, without `open`. gang: gangOf() the claim.
  GangMembers membersOf(const cache::Claim& claim, const v1alpha::Gang& gang) const;
  /// membersOf() with `open`.
  GangMembers openOf(const cache::Claim& claim, const v1alpha::Gang& gang) const {
    return withOpen(membersOf(claim, gang));
  }
  GangMembers withOpen(GangMembers members) const;
  /// Chooses the members: claims that have something already, then members that the last step chose, then the oldest
  /// with the same size and topology. A later claim never takes the place of a member.
  GangMembers membersByAnnotation(const core::ObjectKey& gang) const;
  GangMembers membersOfPodGroup(const std::string& namespace_, const v1alpha::Gang& gang) const;
  GangRoster rosterOf(const GangMembers& members) const;

  /// Checks the gang's roster from the first member that may lack its cards, so that n waiting members cost n reads,
  /// not n².
  GangCards knownCardsOf(const cache::Claim& claim, const core::ObjectKey& gang) const;
  /// Reads all members, and records the result for knownCardsOf(). roster: from before the members were chosen.
  GangCards cardsOf(const GangMembers& members, const core::ObjectKey& gang, const GangRosters::Ptr& roster) const;

  /// True if the claim is of no gang, names one wrongly, or all members of its gang are Bound.
  bool isBound(const cache::Claim& claim) const;
  /// True if a pod of the claim runs, or may run.
  bool mayRun(const cache::Claim& claim) const;
  /// True if a pod of some member was ungated: the gang was complete once.
  bool anyPodUngated(const GangMembers& members) const;

 private:
  /// Members that the last step chose; nullopt if they have to be chosen again.
  std::optional<GangMembers> membersAsChosen(const cache::Claim& claim, const GangRoster& roster) const;
  /// Adds the claims of a pod beyond a PodGroup's first ones.
  void addFurtherPod(GangMembers& members, const GroupPod& pod) const;

  const ClaimContext& context_;
};

}  // namespace egpu::reconcile
