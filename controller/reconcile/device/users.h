// Who uses what a device gives. A pod that runs keeps its device even where the objects that led it there, the claim
// and its ResourceClaim, are gone: a tenant can strip and delete both. Pods are the last word.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/cache/stores.h"
#include "controller/kube/event_sink.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// A pod that still may run or runs; not one that is being deleted before it got a node.
bool alive(const core::Pod& pod);
/// It waits behind our scheduling gate.
bool gated(const core::Pod& pod);
/// A live pod that has a node: the claim is in use. One that is being deleted runs until its node says otherwise.
bool running(const core::Pod& pod);

/// Thread-safe. Also keeps the list of held devices: those that say so in their condition Held.
class Users {
 public:
  /// Listens to the stores, which must outlive it, as must metrics.
  Users(Writer& writer, cache::Stores& stores, Binder& binder, kube::EventSink& events, base::Clock& clock,
        base::Metrics& metrics);

  /// Running pods that name the claim, by resourceClaims or by annotation, as far as the cache knows.
  std::vector<cache::Store<core::Pod>::Ptr> known(const core::ObjectKey& claim) const;
  /// The same by quorum read, of one node (empty: of any): what can't be taken back is decided on this. The stores are
  /// told of what is found, so that its end is an event.
  base::Result<std::vector<core::Pod>> look(const core::ObjectKey& claim, const std::string& node,
                                            std::stop_token stop);
  /// Says on the device that it is held: condition, event and, by the condition, metric elasticgpu_devices_held. who:
  /// what must end.
  base::Status hold(const cache::Gpu& device, std::string_view reason, const std::string& who, std::stop_token stop);
  /// Names of the held devices whose claimRef is "namespace/name", of whatever uid.
  std::vector<std::string> heldFor(const core::ObjectKey& claim) const;

 private:
  void onDevice(const std::string& name);

  Writer& writer_;
  cache::Stores& stores_;
  Binder& binder_;
  kube::EventSink& events_;
  base::Clock& clock_;
  base::Metrics& metrics_;
  mutable std::mutex mutex_;
  std::map<std::string, core::ObjectKey> held_;               ///< device → claim; guarded by mutex_
  std::map<core::ObjectKey, std::set<std::string>> byClaim_;  ///< the same by claim; guarded by mutex_
};

}  // namespace egpu::reconcile
