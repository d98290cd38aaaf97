// Where the volumes of a pod are, if they are bound already: PersistentVolumeClaims and PersistentVolumes are read when
// a pod with such volumes chooses a node, not watched, as few do.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/base/clock.h"
#include "controller/kube/client.h"

namespace egpu::reconcile {

/// Thread-safe. References must outlive it.
class BoundVolumes {
 public:
  BoundVolumes(kube::Client& client, base::Clock& clock) : client_(client), clock_(clock) {}

  /// The node affinities of the pod's bound volumes. A claim that isn't there, isn't bound or may not be read restricts
  /// nothing: then the scheduler decides, and what it can't use comes back. What is bound is remembered for half a
  /// minute.
  base::Result<std::vector<core::NodeSelector>> of(const core::Pod& pod, std::stop_token stop);

 private:
  struct Known {
    std::optional<core::NodeSelector> affinity;
    base::Clock::Steady until;
  };
  struct Read {
    bool bound = false;
    std::optional<core::NodeSelector> affinity;
  };
  base::Result<Read> read(const core::ObjectKey& claim, std::stop_token stop);

  kube::Client& client_;
  base::Clock& clock_;
  std::mutex mutex_;
  std::map<core::ObjectKey, Known> known_;  ///< guarded by mutex_
};

}  // namespace egpu::reconcile
