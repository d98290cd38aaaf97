// Requirements of a pod's claims for a node that another scheduler chooses through our extender.
#pragma once

#include <string>
#include <vector>

#include "api/core/objects.h"
#include "controller/allocator/allocator.h"
#include "controller/reconcile/claim/parts.h"

namespace egpu::reconcile {

struct PodDemand {
  /// Not empty: the answer is not known yet, for example while a claim is about to be bound. The caller asks again.
  std::string later;
  /// Not empty: no node suits, even after evictions, until a user changes something.
  std::string never;
  /// Not empty: the only possible node, where claim `fixedBy` is.
  std::string node, fixedBy;
  /// Requests of the claims that are still to be placed, all on one node. Empty: any node suits, or `node`.
  std::vector<allocator::Allocator::SchedulingRequest> asks;
  /// Further alternatives of each of `asks` (spec.firstAvailable).
  std::vector<std::vector<scheduler::Request>> otherwise;
  /// Devices of claims among `asks`. They are on some node and are rolled back if the pod goes elsewhere.
  std::vector<std::string> devices;
  /// True if nothing is required: any node suits.
  bool any() const { return later.empty() && never.empty() && node.empty() && asks.empty(); }
};

/// True if the device is marked (V2) because its claim has to leave it. No gate is removed for it while it is marked.
bool isLeft(const cache::Gpu& device);

/// Returns the other combinations of alternatives, in the order of scheduler::Combinations.
std::vector<std::vector<allocator::Allocator::SchedulingRequest>> otherAsks(const PodDemand& demand);

/// Returns v1alpha::claimNames(), then the claims that only annotations name.
std::vector<std::string> usedOrAnnotated(const core::Pod& pod);

/// Reads demands. Thread-safe; the references must outlive it.
class DemandReader {
 public:
  DemandReader(const ClaimContext& context, ClaimParts& parts) : context_(context), parts_(parts) {}

  /// Returns the requirements of the pod's claims for a node that another scheduler chooses. pod: as that scheduler
  /// knows it.
  PodDemand demandOf(const core::Pod& pod);
  /// Returns a message if a template of the pod has no ResourceClaim yet and is not known to be another driver's; else
  /// empty.
  std::string unstamped(const core::Pod& pod) const;

 private:
  /// Adds the part of one claim to demandOf().
  void addDemand(const core::Pod& pod, const core::ObjectKey& claim, PodDemand& demand);
  void addOpen(const cache::Claim& claim, const GpuPtr& device, PodDemand& demand);

  const ClaimContext& context_;
  ClaimParts& parts_;
};

}  // namespace egpu::reconcile
