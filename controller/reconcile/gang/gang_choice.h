// Chooses the members of a gang from the objects in the caches.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/v1alpha/gang.h"
#include "controller/allocator/allocator.h"
#include "controller/cache/stores.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/scheduler/gang.h"

namespace egpu::reconcile {

/// The chosen members of a gang, the oldest first. For a PodGroup: the claims of its first pods, as many as it needs.
struct GangChoice {
  using ClaimPtr = cache::Store<cache::Claim>::Ptr;
  v1alpha::Gang gang;  ///< annotations of `definer`, or the PodGroup; size 0: no claim names it
  std::vector<ClaimPtr> here;
  ClaimPtr definer;                   ///< oldest member with a device or decision, else the oldest; null: a PodGroup
  std::vector<GroupPod> furtherPods;  ///< pods of the PodGroup beyond its size
  bool full = false;                  ///< no further claim is needed; for a PodGroup: no further pod
  bool missing = false;  ///< a needed claim does not exist yet: not full, unless `gone` beside a running pod
  bool gone = false;     ///< the pods of all missing members have Succeeded; for a PodGroup: a pod has Succeeded
  bool isEvaluatedAgain = false;  ///< the gang may become complete without an event
  std::string lacks;              ///< why nothing can be decided; empty if it can
};

/// State of claims that no object contains; the reconcilers keep it.
struct GangMemory {
  /// True if the gang's last step chose the claim; null: no step is known.
  std::function<bool(const std::string& claimUid)> wasChosen{};
  /// True if a pod of the claim runs, or may run.
  std::function<bool(const cache::Claim&)> mayHaveRunningPod;
};

/// Chooses claims with a device or a decision first, then members that the last step chose, then the oldest claims that
/// specify the same size and topology. A later claim never takes the place of a member. gang: gangIdOf().
GangChoice chooseByAnnotation(const cache::Stores& stores, const allocator::Allocator& cluster,
                              const core::ObjectKey& gang, const GangMemory& memory);
GangChoice chooseOfGroup(const cache::Stores& stores, const allocator::Allocator& cluster,
                         const std::string& namespace_, const v1alpha::Gang& gang);
/// Returns the message for a pod of a PodGroup whose claims are not all made yet.
std::string notMadeText(const GroupPod& pod);

struct OpenMembers {
  std::vector<GangChoice::ClaimPtr> open;  ///< members without a device or a decision
  std::string standsOn;                    ///< node of a member's device; empty: no member has one
  GangChoice::ClaimPtr leaves;  ///< a member whose device is going; it is open once that is gone. Null: there is none
};
OpenMembers openMembersOf(const cache::Stores& stores, const allocator::Allocator& cluster,
                          const std::vector<GangChoice::ClaimPtr>& here);

/// Returns why the claim can't be decided together with others; empty if it can. takesDevice: it names a device, or one
/// is reserved for it.
std::string decidedByItself(const cache::Claim& claim, bool takesDevice);
/// Groups nodes by the value of a label. only: if not empty, a node; returns only the group of its value.
std::vector<scheduler::TopologyGroup> topologyGroups(const cache::Stores& stores, const std::string& label,
                                                     const std::string& only);

}  // namespace egpu::reconcile
