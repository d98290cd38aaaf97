// Node affinities of a pod's bound volumes. PersistentVolumeClaims and PersistentVolumes are read when a pod with such
// volumes chooses a node. They are not watched, because few pods with claims have them.
#pragma once

#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/kube/client.h"
#include "controller/reconcile/timeouts.h"

namespace egpu::reconcile {

/// Thread-safe. References must outlive it.
class BoundVolumes {
 public:
  BoundVolumes(kube::Client& client, base::Clock& clock, const Timeouts& timeouts)
      : client_(client), clock_(clock), timeouts_(timeouts) {}

  /// Returns the node affinities of the pod's bound volumes. A volume claim that does not exist, is not bound or may
  /// not be read restricts nothing: the scheduler then decides, and clears an allocation that it can't use. Bound
  /// volumes are cached for Timeouts::volumeTtl.
  base::Result<std::vector<core::NodeSelector>> of(const core::Pod& pod, std::stop_token stop);

 private:
  struct CachedAffinity {
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
  const Timeouts& timeouts_;
  base::Mutex mutex_;
  std::map<core::ObjectKey, CachedAffinity> cache_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::reconcile
