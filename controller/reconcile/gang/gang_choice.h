// The choice of the members of a gang, from the objects that the caches have.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/v1alpha/gang.h"
#include "controller/cache/cluster_view.h"
#include "controller/cache/stores.h"
#include "controller/reconcile/gang/gang_of.h"
#include "controller/scheduler/gang.h"

namespace egpu::reconcile {

/// Members that were chosen, the oldest first. Of a PodGroup the claims of the first pods that make it up.
struct GangChoice {
  using ClaimPtr = cache::Store<cache::Claim>::Ptr;
  v1alpha::Gang gang;  ///< as the annotations of `definer` or the PodGroup say; size 0: no claim names it
  std::vector<ClaimPtr> here;
  ClaimPtr definer;  ///< the first member that has something already, else the oldest; null: a PodGroup
  std::vector<GroupPod> furtherPods;  ///< of a PodGroup
  bool full = false;                  ///< no further claim, or pod of a PodGroup, is needed
  bool missing = false;               ///< some are not here
  bool gone = false;                  ///< and those that are not have Succeeded; of a PodGroup some have
  bool looksAgain = false;            ///< no event may tell when the gang is complete
  std::string lacks;                  ///< empty, or why nothing can be decided
};

/// State of claims that no object has; the reconcilers keep it.
struct GangMemory {
  /// The gang's last step chose the claim; null: no step is known.
  std::function<bool(const std::string& claimUid)> wasChosen{};
  /// A pod of the claim runs, or may.
  std::function<bool(const cache::Claim&)> wasLetGo;
};

/// Claims that have something already, then members that the last step chose, then the oldest that say the same size and topology.
/// A claim that comes later never takes the place of a member. gang: gangIdOf().
GangChoice chooseByAnnotation(const cache::Stores& stores, const cache::ClusterView& cluster,
                              const core::ObjectKey& gang, const GangMemory& memory);
GangChoice chooseOfGroup(const cache::Stores& stores, const cache::ClusterView& cluster, const std::string& namespace_,
                         const v1alpha::Gang& gang);
/// The text for a claim of a PodGroup's pod that is not made yet.
std::string notMadeText(const GroupPod& pod);

struct OpenMembers {
  std::vector<GangChoice::ClaimPtr> open;  ///< nothing is decided for them
  std::string standsOn;                    ///< a node of a member that has its device; empty: none has
  GangChoice::ClaimPtr leaves;             ///< its device is going: it is open once that is gone. Null: no member's is
};
OpenMembers openMembersOf(const cache::Stores& stores, const cache::ClusterView& cluster,
                          const std::vector<GangChoice::ClaimPtr>& here);

/// The device that the claim has: the one that its status names, else one that stays, else one that is going. Null: none.
cache::Store<cache::Gpu>::Ptr heldDeviceOf(const cache::Stores& stores, const cache::Claim& claim);

/// Empty, or why a claim can't be decided together with others. takesDevice: it names a device, or one is reserved for it.
std::string decidedByItself(const cache::Claim& claim, bool takesDevice);
/// Nodes by the value of a label; without `only`, or those of that node's value alone.
std::vector<scheduler::TopologyGroup> topologyGroups(const cache::Stores& stores, const std::string& label,
                                                     const std::string& only);

}  // namespace egpu::reconcile
