// External ResourceClaims: ResourceClaims of our device class that other clients create with a request of their own.
// Kubernetes creates them from ResourceClaimTemplates, one per pod; people write them by hand. For each one the
// controller creates an ElasticGPUClaim of its name, owned by it, and binds it like any other. It then is that claim's
// ResourceClaim.
//
//   no ElasticGPUClaim of its name   Created (W0). After a crash, or AlreadyExists: found by its owner reference. A
//                                    claim that was not made for it is not touched; its pods get an event.
//   it cannot be served              Reported by events on it and on its pods.
//   its ElasticGPUClaim is deleted   The allocation is removed (ResourceClaimBridge::release), the device released, the
//                                    claim created again.
//   it is being deleted, or gone     Its ElasticGPUClaim is deleted, which releases all. Its finalizer goes last.
//   allocated, its claim is gone     The claim's device waits for its pods and removes the allocation. If there is no
//                                    such device, the allocation is removed here.
#pragma once

#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>

#include "controller/base/mutex.h"
#include "controller/kube/event_sink.h"
#include "controller/reconcile/resourceclaim/bridge.h"

namespace egpu::reconcile {

/// True if the ResourceClaim is external. Its spec, which is immutable, decides that. Ours never are.
bool asks(const core::ResourceClaim& resourceClaim);
/// The ElasticGPUClaim for an external ResourceClaim, or why it cannot be served: the field, and valid values.
std::variant<cache::Claim, std::string> claimFor(const core::ResourceClaim& resourceClaim);
/// Uid of the ResourceClaim for which the claim was made; empty if it was made by hand.
std::string_view madeFor(const cache::Claim& claim);

/// Thread-safe, one thread per key at a time.
class ResourceClaimAdopter {
 public:
  ResourceClaimAdopter(Writer& writer, cache::Stores& stores, ResourceClaimBridge& resourceClaim,
                       kube::EventSink& events)
      : writer_(writer), stores_(stores), resourceClaim_(resourceClaim), events_(events) {}

  /// Step of a ResourceClaim. For one that is not external, or no longer exists, also runs ResourceClaimBridge::step().
  Outcome step(const core::ObjectKey& key, std::stop_token stop);
  /// Number of ResourceClaims with state here; for tests.
  std::size_t remembered() const;

 private:
  using ClaimPtr = cache::Store<cache::Claim>::Ptr;
  /// Deletes a claim whose ResourceClaim is gone. Nullopt: it exists.
  std::optional<Outcome> ownerGone(const cache::Claim& claim, std::stop_token stop);
  Outcome leaving(const core::ResourceClaim& resourceClaim, const ClaimPtr& claim, std::stop_token stop);
  Outcome make(const core::ResourceClaim& resourceClaim, std::stop_token stop);  // W0
  /// Adds a claim without gang annotations to the gang of the pod it is made for: by the pod's annotations or otherwise
  /// by its PodGroup. Must precede W0, because later the claim might be decided alone.
  base::Status joinGang(const core::ResourceClaim& resourceClaim, cache::Claim& claim, std::stop_token stop);
  /// Handles an allocation for a claim that is gone. Nullopt: the claim can be created.
  std::optional<Outcome> allocatedBefore(const core::ResourceClaim& resourceClaim, std::stop_token stop);
  Outcome remove(const cache::Claim& claim, std::stop_token stop);
  void report(const core::ResourceClaim& resourceClaim, const std::string& message);

  Writer& writer_;
  cache::Stores& stores_;
  ResourceClaimBridge& resourceClaim_;
  kube::EventSink& events_;
  mutable base::Mutex mutex_;
  std::map<core::ObjectKey, std::string> reported_ EGPU_GUARDED_BY(mutex_);  ///< last message for each existing one
};

}  // namespace egpu::reconcile
