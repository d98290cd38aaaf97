// Nodes that another scheduler has chosen for pods, while their binding is under way (binder.h): the pods' steps decide
// for exactly that node, and the claims' steps go on as if the pod had reserved them. Lost with the process: then the
// scheduler hears of a failure and chooses again, and what was begun is given up by its pod's step.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "api/core/objects.h"

namespace egpu::reconcile {

/// Thread-safe.
class ChosenNodes {
 public:
  /// Pods with one of these schedulerNames are left to those schedulers: no node is chosen for them here, and none of
  /// their claims is kept on a node without a binding. Before the first step.
  void leaveTo(std::set<std::string> schedulers) { schedulers_ = std::move(schedulers); }
  bool leavesToScheduler(const core::Pod& pod) const { return schedulers_.count(pod.schedulerName) != 0; }

  /// A binding begins. False: one of that pod is under way.
  bool begin(const core::ObjectKey& pod, const std::string& uid, const std::string& node) {
    const std::lock_guard lock(mutex_);
    return chosen_.try_emplace(pod, Chosen{uid, node, {}}).second;
  }
  void end(const core::ObjectKey& pod) {
    const std::lock_guard lock(mutex_);
    chosen_.erase(pod);
  }
  /// Empty if no binding of the pod is under way.
  std::string nodeOf(const core::Pod& pod) const {
    const std::lock_guard lock(mutex_);
    const auto it = chosen_.find(core::keyOf(pod.metadata));
    return it != chosen_.end() && it->second.uid == pod.metadata.uid ? it->second.node : std::string();
  }

  /// The pod's claims can't be given there, and why.
  void refuse(const core::ObjectKey& pod, const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (const auto it = chosen_.find(pod); it != chosen_.end()) it->second.refusal = why;
  }
  /// Empty: nothing speaks against it so far.
  std::string refusal(const core::ObjectKey& pod) const {
    const std::lock_guard lock(mutex_);
    const auto it = chosen_.find(pod);
    return it == chosen_.end() ? std::string() : it->second.refusal;
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return chosen_.size();
  }

 private:
  struct Chosen {
    std::string uid, node, refusal;
  };
  std::set<std::string> schedulers_;  ///< constant once steps are made
  mutable std::mutex mutex_;
  std::map<core::ObjectKey, Chosen> chosen_;  ///< guarded by mutex_
};

}  // namespace egpu::reconcile
