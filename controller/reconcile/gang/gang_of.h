// Of which gang a claim is, and who else is of it: from what the caches know.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/v1alpha/gang.h"
#include "controller/cache/stores.h"

namespace egpu::reconcile {

/// As its annotations say it, or the PodGroup that they name. Nothing: it is of none, or it can't be said yet.
std::optional<v1alpha::Gang> gangOf(const cache::Stores& stores, const cache::Claim& claim);
/// The gang that its annotations name rightly, by namespace and name; a PodGroup by namespace, and a slash before its name, which no
/// gang's name begins with. Nothing: they name none.
std::optional<core::ObjectKey> gangNamedBy(const cache::Claim& claim);
core::ObjectKey gangIdOf(const std::string& namespace_, const v1alpha::Gang& gang);
/// It is of one, rightly said or not, or of a PodGroup that is not there yet. A PodGroup counts where the API server has the kind.
bool inGang(const cache::Stores& stores, const cache::Claim& claim);
/// A pod of a PodGroup that counts: it waits, runs, or has Succeeded. One that failed is to be replaced.
struct GroupPod {
  cache::Store<core::Pod>::Ptr pod;
  std::vector<cache::Store<cache::Claim>::Ptr> claims;  ///< of the PodGroup's gang; none of one that has Succeeded
  bool letGo = false;                                   ///< it is not behind our gate, or was not
  bool whole = true;                                    ///< its claims are made, all of them
};
/// The pod, with its claims that name this PodGroup.
GroupPod groupPodOf(const cache::Stores& stores, const cache::Store<core::Pod>::Ptr& pod, std::string_view group);
/// In the order in which they count: those that were let go, then those that hold something already (`holds`), then the oldest.
std::vector<GroupPod> podsOfGroup(const cache::Stores& stores, const std::string& namespace_, const std::string& group,
                                  const std::function<bool(const cache::Claim&)>& holds);

/// Members of a gang, said by annotations, that have gone with a pod that Succeeded, as far as such pods are still there.
std::size_t succeededMembers(const cache::Stores& stores, const std::string& namespace_, const v1alpha::Gang& gang);

}  // namespace egpu::reconcile
