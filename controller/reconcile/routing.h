// Event handlers: map a changed object to the queue keys that depend on it. They do nothing else.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "controller/allocator/allocator.h"
#include "controller/base/mutex.h"
#include "controller/cache/stores.h"
#include "controller/plugin/provisioner.h"
#include "controller/reconcile/class/class.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/retry/waiting.h"
#include "controller/reconcile/template/amounts.h"

namespace egpu::reconcile {

/// Listens from construction on. After the destructor, nothing is enqueued.
class Routing {
 public:
  using Enqueue = std::function<void(const std::string& queueKey)>;
  Routing(cache::Stores& stores, allocator::Allocator& cluster, plugin::Registry& registry, ClassSync& classes,
          Users& users, Waiting& waiting, Provisioning& provisioning, AmountsSync& amounts, Enqueue enqueue);
  ~Routing();
  Routing(const Routing&) = delete;
  Routing& operator=(const Routing&) = delete;

  /// Enqueues claims (of one namespace if given) that wait for a change of their class.
  void openClaimsOf(const cache::Class& cls, std::string_view namespace_ = {});
  /// Enqueues claims that name the device or for which it is reserved.
  void claimsOfDevice(const cache::Gpu& device);
  /// The remote device has become Available, or its node has changed: enqueues the claims of its class, which may get
  /// it.
  void claimsForRemoteDevice(const cache::Gpu& device);

 private:
  void onClaim(const cache::Claim* before, const cache::Claim* after);
  void onDevice(const cache::Gpu* before, const cache::Gpu* after);
  void onCard(const cache::Gpu* before, const cache::Gpu* after);
  /// Enqueues the claims whose usage of the card changed. No other key depends on usage.
  void claimsUse(const cache::Gpu* before, const cache::Gpu& after);
  void onResourceClaim(const core::ResourceClaim* before, const core::ResourceClaim* after);
  void onPod(const core::Pod* before, const core::Pod* after);
  void onNode(const core::Node* before, const core::Node* after);
  void onClass(const cache::Class* before, const cache::Class* after);
  void onNamespace(const core::Namespace* before, const core::Namespace* after);
  /// Enqueues pods of a namespace that have no node, and their claims, after the namespace changed whether these may be
  /// scheduled.
  void podsIn(const std::string& namespace_);
  void onTemplate(const cache::ClaimTemplate* before, const cache::ClaimTemplate* after);
  void onPriorityClass(const core::PriorityClass* before, const core::PriorityClass* after);
  /// Enqueues the gangs that the claim named or names, if the change matters to its gang.
  void gangsOf(const cache::Claim* before, const cache::Claim* after);
  void gangOf(const cache::Claim& claim);
  void onPodGroup(const core::PodGroup* before, const core::PodGroup* after);
  /// Enqueues open claims of the claim's pods, which may share a nomination with it.
  void plannedWith(const core::ObjectKey& claim);
  /// Enqueues the claims whose devices are victims in the claim's nomination.
  void victimsOf(const cache::Claim& claim);
  void onTaintRule(const core::DeviceTaintRule* before, const core::DeviceTaintRule* after);
  /// Enqueues devices that use the card, their claims, and claims that name it.
  void usersOfCard(const std::string& card);
  void onPlugin(const std::string& name);
  /// Records in the stores whether the plugin's devices are remote.
  void recordSource(const std::string& plugin);
  /// Enqueues held devices whose claim has, or had, that name.
  void heldFor(const core::ObjectKey& claim);
  void podsOf(const core::ObjectKey& claim);
  /// Begins a round for the keys that wait for capacity.
  void capacityChanged();
  /// True if the claim has no device and its pods choose the node. Its own step then enqueues the pods that may choose.
  bool isLeftToPods(const core::ObjectKey& claim) const;
  /// Disconnects from the registry, which cannot remove a listener.
  struct Link {
    base::Mutex mutex;
    Routing* routing EGPU_GUARDED_BY(mutex) = nullptr;
  };

  cache::Stores& stores_;
  allocator::Allocator& cluster_;
  ClassSync& classes_;
  Users& users_;
  Waiting& waiting_;
  Provisioning& provisioning_;
  AmountsSync& amounts_;
  const Enqueue enqueue_;
  const std::shared_ptr<Link> link_;
};

}  // namespace egpu::reconcile
