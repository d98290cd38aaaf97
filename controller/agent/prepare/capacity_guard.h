// Capacity check on the node: the prepared devices of a card never exceed it, regardless of the API's contents.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/agent/cdi/folder.h"
#include "controller/base/mutex.h"
#include "controller/base/status.h"

namespace egpu::agent {

/// Returns OK if `wanted` fits on its cards together with the `holders` of other devices, in charged amounts, or takes
/// no more of a card than the device's existing file. `cards`: the cards of wanted.cards, in the same order.
/// Code::invalid names the holders. Code::unavailable names a file that can't be read, as it may hold the card. Pure.
base::Status fits(const cdi::Spec& wanted, const std::vector<v1alpha::Card>& cards,
                  const std::vector<cdi::Folder::StoredSpec>& holders);

/// Checks with fits() and writes the part atomically: of two threads or agents, one comes first. Waiting callers in
/// this process are decided together, in order of arrival. Thread-safe. Keeps a reference to the folder, which must
/// outlive it.
class CapacityGuard {
 public:
  explicit CapacityGuard(cdi::Folder& folder) : folder_(folder) {}

  /// Writes `wanted` as the device's part, which counts in later checks. Errors of fits() and the folder are returned.
  base::Status reserve(const cdi::Spec& wanted, const std::vector<v1alpha::Card>& cards);

  /// Number of waiting callers, for tests.
  std::size_t waiting() const {
    const base::MutexLock lock(mutex_);
    return pending_.size();
  }

 private:
  struct CapacityRequest {
    const cdi::Spec& wanted;
    const std::vector<v1alpha::Card>& cards;
    cdi::Draft draft;
    base::Status answer{};
    bool answered = false;  ///< guarded by the mutex_ of the guard
  };
  void decide(const std::vector<CapacityRequest*>& requests);

  cdi::Folder& folder_;
  mutable base::Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<CapacityRequest*> pending_ EGPU_GUARDED_BY(mutex_);
  bool deciding_ EGPU_GUARDED_BY(mutex_) = false;
};

}  // namespace egpu::agent
