// The gang of the claim that a question is about: its members as the controller would decide them together, or why it
// would not.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "api/v1alpha/gang.h"
#include "controller/allocator/allocator.h"
#include "controller/base/clock.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/gang.h"

namespace egpu::whatif {

struct GangToLetIn {
  v1alpha::Gang gang;
  std::size_t decided = 0;        ///< number of members that have their cards, or are about to get them
  std::vector<std::string> open;  ///< "namespace/name" of the undecided members, the oldest first
  std::string phase;              ///< "Bound": all members are Bound; otherwise "Pending"
  std::string why;                ///< why the members can't be decided; empty: they can
  std::string quota;              ///< the quota of their namespace that stops them; empty: none
  /// Why the members would not be bound even with enough capacity; empty: they would.
  std::string waits;

  // One element per open member.
  std::vector<scheduler::GangMember> members;
  std::vector<allocator::Allocator::SchedulingRequest> asks;
  std::optional<std::vector<scheduler::TopologyGroup>> groups;  ///< none: any node
  const std::vector<scheduler::TopologyGroup>* within() const { return groups ? &*groups : nullptr; }
};

/// Chooses members as the gang's own step does (reconcile/gang/gang_choice.h), without the state that the step keeps in
/// memory about undecided claims. Volumes and preferences of the members' pods are ignored, as in all what-if answers.
/// The result refers to the stores.
GangToLetIn gangToLetIn(const cache::Stores& stores, const allocator::Allocator& cluster, const cache::Claim& claim,
                        base::Clock::Wall wall);

}  // namespace egpu::whatif
