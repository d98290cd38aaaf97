// One attempt to place the requests of a claim, a pod or a gang, all or none. It holds what these decisions share; the
// caller searches between the steps:
//
//   constructor   reports the cluster to the listener, drops earlier assumptions, records the demand
//   search        by the caller: sets the results below
//   commit()      reports the decisions to the listener, and assumes them
//   finish()      without the mutex: calls the listeners
#pragma once

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "controller/allocator/allocator_state.h"
#include "controller/allocator/cluster_observer.h"
#include "controller/allocator/scheduling_request.h"
#include "controller/base/mutex.h"

namespace egpu::allocator {

/// The requests must outlive it. Each step gets the state again, so that the analysis of locks knows its mutex.
class PlacementAttempt {
 public:
  enum class GroupKind { onOneNode, gang };

  PlacementAttempt(AllocatorState& state, const std::vector<SchedulingRequest>& asks, GroupKind kind)
      EGPU_REQUIRES(state.mutex);
  void commit(AllocatorState& state) EGPU_REQUIRES(state.mutex);
  void finish(AllocatorState& state) EGPU_EXCLUDES(state.mutex);
  /// True if a claim was assumed before, so that the search starts from another cluster than other claims'.
  bool isRetry() const { return !dropped_.empty(); }

  // Results of the search.
  std::vector<scheduler::Decision> decisions;  ///< one per request; empty if they do not all fit
  PredicateTrace predicateTrace;  ///< answers of the node predicate, so that the journal can replay the decision
  /// True if the listener cannot reproduce the decision. The listener knows no quotas, nominations and reservations,
  /// and no changes of the cluster during the search.
  bool isIrreproducible = false;

 private:
  const std::vector<SchedulingRequest>& asks_;
  const GroupKind kind_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  /// Earlier assumptions: position of the request, and its amounts.
  std::vector<std::pair<std::size_t, std::vector<AssumedAmount>>> dropped_;
  std::chrono::duration<double> took_{};
  bool hasNews_ = false;
};

}  // namespace egpu::allocator
