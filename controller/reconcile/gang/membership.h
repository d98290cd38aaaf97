// Membership of claims and pods in gangs, as far as the caches know.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/v1alpha/gang.h"
#include "controller/cache/stores.h"

namespace egpu::reconcile {

/// Returns the gang of the claim's annotations or of the PodGroup that they name. nullopt: none, or not known yet.
std::optional<v1alpha::Gang> gangOf(const cache::Stores& stores, const cache::Claim& claim);
/// Returns the gang that valid annotations name, by namespace and name. A PodGroup's name is prefixed with a slash,
/// with which no gang's name begins. nullopt: they name none.
std::optional<core::ObjectKey> gangNamedBy(const cache::Claim& claim);
core::ObjectKey gangIdOf(const std::string& namespace_, const v1alpha::Gang& gang);
/// True if the claim names a gang, validly or not, or a PodGroup that does not exist yet. PodGroups count only where
/// the API server has the kind.
bool inGang(const cache::Stores& stores, const cache::Claim& claim);
/// A pod that counts for a PodGroup: it waits, runs, or has Succeeded. A failed pod will be replaced and does not
/// count.
struct GroupPod {
  cache::Store<core::Pod>::Ptr pod;
  std::vector<cache::Store<cache::Claim>::Ptr> claims;  ///< those in the gang; none if the pod has Succeeded
  bool ungated = false;                                 ///< it is not gated, or has Succeeded
  bool whole = true;                                    ///< all its claims are made
};
/// Returns the pod, with its claims that name this PodGroup.
GroupPod groupPodOf(const cache::Stores& stores, const cache::Store<core::Pod>::Ptr& pod, std::string_view group);
/// Returns the pods in the order in which they count: pods without a gate, then pods with claims that hold something
/// already (`holds`), then the oldest.
std::vector<GroupPod> podsOfGroup(const cache::Stores& stores, const std::string& namespace_, const std::string& group,
                                  const std::function<bool(const cache::Claim&)>& holds);

/// Number of members of an annotated gang that are gone because their pod has Succeeded, as far as such pods still
/// exist.
std::size_t succeededMembers(const cache::Stores& stores, const std::string& namespace_, const v1alpha::Gang& gang);

}  // namespace egpu::reconcile
