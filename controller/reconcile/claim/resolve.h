// Resolves a claim without a device to scheduling requests: class, plugin, priority, units. (C2), (C3), (C4).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "controller/allocator/allocator.h"
#include "controller/reconcile/claim/context.h"
#include "controller/scheduler/request.h"

namespace egpu::reconcile {

/// Result of resolving a claim: class and requests for the scheduler, or why there are none.
struct ResolvedClaim {
  cache::Store<cache::Class>::Ptr cls;
  scheduler::Request request;
  std::vector<scheduler::Request> otherwise{};  ///< alternatives after the first one (spec.firstAvailable)
  std::string reason, message;                  ///< set if refused
  bool isSpecValid = false;                     ///< the refusal is not about the claim's spec
  bool later = false;                           ///< the plugin is busy: resolve again later
  allocator::Allocator::QueueOrder order{};
  bool preempts = false;  ///< may preempt claims of lower priority
  bool first = true;      ///< false for alternative(which), which > 0
  bool ok() const { return reason.empty() && !later; }
  std::size_t alternatives() const { return 1 + otherwise.size(); }
  /// Returns that alternative as a request of its own. Only the first alternative reserves nodes and preempts.
  ResolvedClaim alternative(std::size_t which) const;
  /// Returns the scheduling request. nodes: see allocator::Allocator::SchedulingRequest::nodes.
  allocator::Allocator::SchedulingRequest of(const cache::Claim& claim, std::string nodes = {}) const;
  ConditionUpdate refusal(const cache::Claim& claim) const;
};

/// Returns the requests of the claim and its alternatives, for requeueing when capacity is freed.
CapacityNeeds needsOf(const cache::Claim& claim, const ResolvedClaim& asked);
/// Returns the class of the device as it was when the device was made. The device's amounts are read with it, whatever
/// the class is now.
cache::Class classOfDevice(const cache::Gpu& device);
/// Returns the position of the claim in queue order.
allocator::Allocator::QueueOrder queueOrderOf(const cache::Claim& claim, int64_t priority, base::Clock::Wall wall);

/// Returns the request of a claim without alternatives. Needs no plugin: checks that the claim may use the class, and
/// parses the amounts.
std::variant<scheduler::Request, scheduler::Refusal> schedulingRequestOf(const cache::Stores& stores,
                                                                         const cache::Claim& claim,
                                                                         const cache::Class& cls);
/// schedulingRequestOf() for each alternative of the claim.
std::variant<std::vector<scheduler::Request>, scheduler::Refusal> schedulingRequestsOf(const cache::Stores& stores,
                                                                                       const cache::Claim& claim,
                                                                                       const cache::Class& cls);

/// Thread-safe. The context must outlive it.
class ClaimResolver {
 public:
  explicit ClaimResolver(const ClaimContext& context) : context_(context) {}

  /// Asks the class's plugin whether it can serve, if that is not known yet.
  ResolvedClaim resolve(const cache::Claim& claim);
  ResolvedClaim resolve(const cache::Claim& claim, cache::Store<cache::Class>::Ptr cls);
  /// If a quota refused the claim, and the namespace's quotas have not changed since: queues the claim for their next
  /// change, sets the refusal in `asked`, and returns true.
  bool awaitQuotaChange(const cache::Claim& claim, ResolvedClaim& asked);

 private:
  /// Creation time of the oldest pod that wants the claim, in seconds of the wall clock; `now` if there is none.
  int64_t wantedSince(const cache::Claim& claim, int64_t now) const;

  const ClaimContext& context_;
};

}  // namespace egpu::reconcile
