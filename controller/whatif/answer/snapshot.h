// Builds the snapshot that what-if questions work on: a copy of the scheduler's cluster, and all claims.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "controller/allocator/allocator.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/what_if.h"

namespace egpu::whatif {

/// Input of one question: built per question and not shared. The predicates in it read nodes and pod usage from the
/// stores, which must outlive it.
struct Snapshot {
  scheduler::Situation situation;
  std::map<std::string, std::string, std::less<>> holders;  ///< device uid → "namespace/name", or "device NAME"
  /// Returns the owner's name for a device uid; "device UID" if the owner is not known.
  std::string holder(std::string_view device) const;
};

/// Returns the device of the claim; null: it has none yet.
cache::Store<cache::Gpu>::Ptr deviceOf(const cache::Stores& stores, const cache::Claim& claim);

/// Returns the claim as the scheduler would decide it now. It has no request if the claim names a device or has one
/// reserved for it, waits for its first pod or its gang, is being deleted, or its class can't serve it; `why` contains
/// the reason. For a WaitForFirstConsumer class, the node conditions of the claim's pods apply (without their volumes);
/// otherwise the taints that the class tolerates, as in the binding itself. evenIdle: returns a request also for a
/// claim that waits for its first pod or its gang; `why` is still set.
scheduler::ClaimRecord recordOf(const cache::Stores& stores, const cache::Claim& claim, bool evenIdle = false);
/// Returns why the scheduler decides nothing for claims of a class of remote GPUs.
std::string remoteText(const cache::Class& cls);

/// Returns a message that the claim is decided together with its gang; empty: it is in no gang.
std::string decidedWith(const cache::Stores& stores, const cache::Claim& claim);

/// Implements scheduler::WhyUnsuited for reconcile::toleratedNodes().
std::string untolerated(std::string_view node);
/// Returns a predicate: true if all live pods of the claim, recreated, could run on the node. Null if the claim has no
/// pods. Volumes are ignored.
scheduler::NodePredicate suitsPodsOf(const cache::Stores& stores, const cache::Claim& claim);

/// Returns a copy of the cluster, and all claims. The copy of the cluster is consistent; claims that change while they
/// are read may be newer. `pause` is called regularly, and may throw.
Snapshot takeSnapshot(const cache::Stores& stores, const allocator::Allocator& cluster,
                      const scheduler::Pause& pause = {});

}  // namespace egpu::whatif
