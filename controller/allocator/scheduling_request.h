// Requests for capacity, as reconcilers hand them to the allocator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "controller/scheduler/decide.h"
#include "controller/scheduler/gang.h"
#include "controller/scheduler/queue_order.h"

namespace egpu::allocator {

/// Position in queue order. Times are seconds of the wall clock.
struct QueueOrder {
  int64_t priority = 0;
  int64_t since = 0;         ///< creation of the claim
  int64_t waitingSince = 0;  ///< pending since then, according to the claim's status
  int64_t now = 0;
  /// Releases (Allocator::releases()) that were announced when the queue admitted the request; see
  /// Allocator::isOutdated(). nullopt = no request before it in queue order needs the released capacity.
  std::optional<uint64_t> releases{};
};

/// Request of one claim.
struct SchedulingRequest {
  std::string claimUid;
  std::string claim;  ///< "namespace/name"
  scheduler::Request request;
  /// Key of the node predicate: equal texts mean equal sets of suitable nodes; empty = not cached. A request that
  /// fits no node of the set is cached as unschedulable until capacity is freed.
  std::string nodes;
  std::string className{};  ///< class of the claim, for quotas
  QueueOrder order{};
  bool first = true;  ///< first alternative of the claim, evaluated on all nodes; otherwise nothing is reserved
};

/// Nodes for one member of a gang; see scheduler::GangMember.
struct GangMemberConstraints {
  scheduler::NodePredicate suits{};
  decltype(scheduler::GangMember::hasCapacity) hasCapacity{};
  std::optional<std::size_t> with{};
  std::optional<std::size_t> kind{};
  /// The same conditions once all pods that use claims have left a node, for reservations; null = no difference.
  scheduler::NodePredicate suitsOnceFree{};
  decltype(scheduler::GangMember::hasCapacity) hasCapacityOnceFree{};
};

/// The claim in queue order. Refers to the request.
inline scheduler::PendingRequest pendingRequestOf(const SchedulingRequest& ask) {
  return {ask.claim, ask.order.priority, ask.order.since, &ask.request};
}

/// Namespace of a claim named "namespace/name".
inline std::string namespaceOf(const std::string& claim) { return claim.substr(0, claim.find('/')); }

inline std::vector<scheduler::Request> requestsOf(const std::vector<SchedulingRequest>& asks) {
  std::vector<scheduler::Request> requests;
  requests.reserve(asks.size());
  for (const auto& ask : asks) requests.push_back(ask.request);
  return requests;
}

}  // namespace egpu::allocator
