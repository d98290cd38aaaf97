// The gang of a claim that is asked about: its members as the controller would decide them together, or why it would not.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "api/v1alpha/gang.h"
#include "controller/base/clock.h"
#include "controller/cache/cluster_view.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/gang.h"

namespace egpu::server {

struct GangToLetIn {
  v1alpha::Gang gang;
  std::size_t decided = 0;        ///< members that have their cards, or are about to
  std::vector<std::string> open;  ///< "namespace/name" of the members that nothing is decided for, the oldest first
  std::string phase;              ///< "Bound": all members are; else "Pending"
  std::string why;                ///< why nothing can be decided for the members; empty: it can
  std::string quota;              ///< the quota of their namespace that stops them; empty: none does
  /// Why more room alone would not have them bound; empty: it would.
  std::string waits;

  // One per open member.
  std::vector<scheduler::GangMember> members;
  std::vector<cache::ClusterView::Ask> asks;
  std::optional<std::vector<scheduler::TopologyGroup>> groups;  ///< nothing: anywhere
  const std::vector<scheduler::TopologyGroup>* within() const { return groups ? &*groups : nullptr; }
};

/// Members are chosen as the gang's own step does (reconcile/gang/gang_choice.h), but for what that step remembers of claims that
/// have nothing yet. Where their pods' volumes and likings would send them is not known here, as for any claim that is asked about.
/// The result refers to the stores.
GangToLetIn gangToLetIn(const cache::Stores& stores, const cache::ClusterView& cluster, const cache::Claim& claim,
                        base::Clock::Wall wall);

}  // namespace egpu::server
