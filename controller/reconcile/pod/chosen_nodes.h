// Nodes that another scheduler has chosen for pods whose binding is under way (pod_binder.h). The pods' steps decide
// for exactly that node, and the claims' steps continue as if the pod had reserved them. In memory only: after a
// restart the scheduler gets an error and chooses again, and the pod's step rolls back its intents.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "api/core/objects.h"
#include "controller/base/mutex.h"

namespace egpu::reconcile {

/// Thread-safe.
class ChosenNodes {
 public:
  /// Leaves pods with these schedulerNames to those schedulers: no node is chosen for them here, and their intents are
  /// rolled back unless a binding is under way. Call it before the first step.
  void leaveTo(std::set<std::string> schedulers) { schedulers_ = std::move(schedulers); }
  bool leavesToScheduler(const core::Pod& pod) const { return schedulers_.count(pod.schedulerName) != 0; }

  /// Begins a binding. Returns false if a binding of that pod is under way.
  bool begin(const core::ObjectKey& pod, const std::string& uid, const std::string& node) {
    const base::MutexLock lock(mutex_);
    return chosen_.try_emplace(pod, Chosen{uid, node, {}}).second;
  }
  void end(const core::ObjectKey& pod) {
    const base::MutexLock lock(mutex_);
    chosen_.erase(pod);
  }
  /// Returns the chosen node; empty if no binding of the pod is under way.
  std::string nodeOf(const core::Pod& pod) const {
    const base::MutexLock lock(mutex_);
    const auto it = chosen_.find(core::keyOf(pod.metadata));
    return it != chosen_.end() && it->second.uid == pod.metadata.uid ? it->second.node : std::string();
  }

  /// Records why the pod's claims can't be allocated on the chosen node.
  void refuse(const core::ObjectKey& pod, const std::string& why) {
    const base::MutexLock lock(mutex_);
    if (const auto it = chosen_.find(pod); it != chosen_.end()) it->second.refusal = why;
  }
  /// Returns the recorded reason; empty if there is none.
  std::string refusal(const core::ObjectKey& pod) const {
    const base::MutexLock lock(mutex_);
    const auto it = chosen_.find(pod);
    return it == chosen_.end() ? std::string() : it->second.refusal;
  }
  std::size_t size() const {
    const base::MutexLock lock(mutex_);
    return chosen_.size();
  }

 private:
  struct Chosen {
    std::string uid, node, refusal;
  };
  std::set<std::string> schedulers_;  ///< constant after the first step
  mutable base::Mutex mutex_;
  std::map<core::ObjectKey, Chosen> chosen_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::reconcile
