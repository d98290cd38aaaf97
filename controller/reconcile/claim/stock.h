// Stock ResourceClaims: those of our device class that others make and that say by themselves what they want. Kubernetes
// stamps them from ResourceClaimTemplates, one per pod; people write them by hand. For each one an ElasticGPUClaim of its
// name is made, owned by it, and bound as any other; the ResourceClaim is then that claim's carrier.
//
//   no ElasticGPUClaim of its name    made (W0). Crash after it, or AlreadyExists: found by its owner reference. One that was
//                                     not made for it is left alone, and its pods hear of it
//   it can't be served                said on it and on its pods
//   its ElasticGPUClaim is deleted    allocation taken back (Carrier::release), device released, made anew
//   it is being deleted, or gone      its ElasticGPUClaim is deleted, which gives all back; its finalizer goes last
//   allocated, its claim torn out     the device of that claim waits for its pods and takes the allocation back. No such
//                                     device: taken back here
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>

#include "controller/kube/event_sink.h"
#include "controller/reconcile/claim/carrier.h"

namespace egpu::reconcile {

/// It is a stock one, by its spec, which nobody can change. The carriers that we make never are.
bool asks(const core::ResourceClaim& carrier);
/// The ElasticGPUClaim that a stock one wants, or in words why it can't be served: the field, and what would be valid.
std::variant<cache::Claim, std::string> claimFor(const core::ResourceClaim& carrier);
/// The uid of the ResourceClaim that the claim was made for; empty: it was made by hand.
std::string_view madeFor(const cache::Claim& claim);

/// Thread-safe, one thread per key at a time.
class StockSync {
 public:
  StockSync(Writer& writer, cache::Stores& stores, Carrier& carrier, kube::EventSink& events)
      : writer_(writer), stores_(stores), carrier_(carrier), events_(events) {}

  /// Of a ResourceClaim, also of one that is none of these or no more: what Carrier::step does besides.
  Outcome step(const core::ObjectKey& key, std::stop_token stop);
  /// ResourceClaims of which something is remembered; for tests.
  std::size_t remembered() const;

 private:
  using ClaimPtr = cache::Store<cache::Claim>::Ptr;
  /// A claim that was made for a ResourceClaim that is no more. Nothing: it is there.
  std::optional<Outcome> ownerGone(const cache::Claim& claim, std::stop_token stop);
  Outcome leaving(const core::ResourceClaim& carrier, const ClaimPtr& claim, std::stop_token stop);
  Outcome make(const core::ResourceClaim& carrier, std::stop_token stop);  // W0
  /// One that says nothing of a gang is of the gang that the pod says it is made for, by annotations or else by the PodGroup that it
  /// is of. Before W0: decided alone it would be too late.
  base::Status joinGang(const core::ResourceClaim& carrier, cache::Claim& claim, std::stop_token stop);
  /// Allocated for a claim that is no more. Nothing: it can be made anew.
  std::optional<Outcome> allocatedBefore(const core::ResourceClaim& carrier, std::stop_token stop);
  Outcome remove(const cache::Claim& claim, std::stop_token stop);
  void tell(const core::ResourceClaim& carrier, const std::string& message);

  Writer& writer_;
  cache::Stores& stores_;
  Carrier& carrier_;
  kube::EventSink& events_;
  mutable std::mutex mutex_;
  std::map<core::ObjectKey, std::string>
      told_;  ///< what each was told last, of those that are there; guarded by mutex_
};

}  // namespace egpu::reconcile
