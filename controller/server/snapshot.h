// The cluster's claims as questions see them, next to a copy of the scheduler's cluster.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "controller/cache/cluster_view.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/what_if.h"

namespace egpu::server {

/// What is asked about: taken once per question, changed by nobody else. It keeps a reference to the stores, which must
/// outlive it: nodes are looked up there for what pods ask of them.
struct Snapshot {
  scheduler::Situation situation;
  std::map<std::string, std::string, std::less<>> holders;  ///< device uid → "namespace/name", or "device NAME"
  /// Whom to name for a device uid; "device UID" if nobody is known to have it.
  std::string holder(std::string_view device) const;
};

/// The device that the claim has; null: none yet.
cache::Store<cache::Gpu>::Ptr deviceOf(const cache::Stores& stores, const cache::Claim& claim);

/// A claim as it would be decided now. Without a request: it has its device by name, waits for its first pod or with its gang, is being
/// deleted, or its class can't serve it; `why` says so. Of a class that waits for the first consumer, its pods' node
/// conditions count (not their volumes'), else the taints that the class tolerates, as for the binding itself.
/// evenIdle: waiting for its first pod, or with a gang, is no reason not to ask; `why` says it all the same.
scheduler::ClaimRecord recordOf(const cache::Stores& stores, const cache::Claim& claim, bool evenIdle = false);

/// For people: that it is decided with the others of its gang. Empty: it is of none.
std::string decidedWith(const cache::Stores& stores, const cache::Claim& claim);

/// scheduler::WhyUnsuited of reconcile::toleratedNodes().
std::string untolerated(std::string_view node);
/// Whether all live pods of the claim could run on a node, made anew; null if it has none. Their volumes don't count.
scheduler::NodePredicate suitsPodsOf(const cache::Stores& stores, const cache::Claim& claim);

/// A copy of the cluster, and all claims. The copy is of one moment; claims that change while they are read are as they
/// are found. `pause` is called now and then, and may throw.
Snapshot takeSnapshot(const cache::Stores& stores, const cache::ClusterView& cluster,
                      const scheduler::Pause& pause = {});

}  // namespace egpu::server
