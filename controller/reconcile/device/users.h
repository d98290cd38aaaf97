// Pods that use a device. A pod that runs keeps its device even if the claim and the ResourceClaim that led it there
// are gone, because a tenant can strip and delete both. Only the pods decide.
#pragma once

#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/base/mutex.h"
#include "controller/cache/stores.h"
#include "controller/kube/event_sink.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// True if the pod runs or may still run; false if it was deleted before it got a node.
bool alive(const core::Pod& pod);
/// True if the pod waits behind our scheduling gate.
bool gated(const core::Pod& pod);
/// True if a live pod has a node: its claims are in use. A pod that is being deleted runs until its node reports its
/// end.
bool running(const core::Pod& pod);

/// Thread-safe. Also lists the held devices: those whose condition Held is True.
class Users {
 public:
  /// Listens to the stores. Stores and metrics must outlive it.
  Users(Writer& writer, cache::Stores& stores, Binder& binder, kube::EventSink& events, base::Clock& clock,
        base::Metrics& metrics);

  /// Returns running pods that name the claim, by resourceClaims or by annotation, as far as the cache knows.
  std::vector<cache::Store<core::Pod>::Ptr> known(const core::ObjectKey& claim) const;
  /// Like known(), by quorum read, of one node (empty: of any). Writes that can't be undone depend on it. The stores
  /// get the pods that it finds, so that their end causes an event.
  base::Result<std::vector<core::Pod>> readPods(const core::ObjectKey& claim, const std::string& node,
                                                std::stop_token stop);
  /// True if a running pod names the claim, as far as the cache knows.
  bool isInUse(const core::ObjectKey& claim) const { return !known(claim).empty(); }
  /// True if a running pod on that node names the claim, by quorum read if the cache knows none on any node.
  base::Result<bool> isInUseNow(const core::ObjectKey& claim, const std::string& node, std::stop_token stop);
  /// Reports on the device that it is held: by condition, event and, through the condition, metric
  /// elasticgpu_devices_held. who: the users that must end.
  base::Status hold(const cache::Gpu& device, std::string_view reason, const std::string& who, std::stop_token stop);
  /// Returns the names of the held devices whose claimRef is "namespace/name", of any uid.
  std::vector<std::string> heldFor(const core::ObjectKey& claim) const;

 private:
  void onDevice(const std::string& name);

  Writer& writer_;
  cache::Stores& stores_;
  Binder& binder_;
  kube::EventSink& events_;
  base::Clock& clock_;
  base::Metrics& metrics_;
  mutable base::Mutex mutex_;
  std::map<std::string, core::ObjectKey> held_ EGPU_GUARDED_BY(mutex_);               ///< device → claim
  std::map<core::ObjectKey, std::set<std::string>> byClaim_ EGPU_GUARDED_BY(mutex_);  ///< devices by claim
};

}  // namespace egpu::reconcile
