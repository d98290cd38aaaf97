// From what changed to the keys that must look at it: the only thing that event handlers do.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "controller/cache/cluster_view.h"
#include "controller/cache/stores.h"
#include "controller/plugin/provisioner.h"
#include "controller/reconcile/claim/waiting.h"
#include "controller/reconcile/class/class.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/template/amounts.h"

namespace egpu::reconcile {

/// Listens from construction on; after the destructor nothing is enqueued any more.
class Routing {
 public:
  using Enqueue = std::function<void(const std::string& queueKey)>;
  Routing(cache::Stores& stores, cache::ClusterView& cluster, plugin::Registry& registry, ClassSync& classes,
          Users& users, Waiting& waiting, Provisioning& provisioning, AmountsSync& amounts, Enqueue enqueue);
  ~Routing();
  Routing(const Routing&) = delete;
  Routing& operator=(const Routing&) = delete;

  /// Claims, of one namespace if one is given, that wait for something about their class.
  void openClaimsOf(const cache::Class& cls, std::string_view namespace_ = {});
  /// Claims that name the device or that it is reserved for.
  void claimsOfDevice(const cache::Gpu& device);

 private:
  void onClaim(const cache::Claim* before, const cache::Claim* after);
  void onDevice(const cache::Gpu* before, const cache::Gpu* after);
  void onCard(const cache::Gpu* before, const cache::Gpu* after);
  /// The claims that use another part of the card than before. Nothing else is woken by what is used.
  void claimsUse(const cache::Gpu* before, const cache::Gpu& after);
  void onCarrier(const core::ResourceClaim* before, const core::ResourceClaim* after);
  void onPod(const core::Pod* before, const core::Pod* after);
  void onNode(const core::Node* before, const core::Node* after);
  void onClass(const cache::Class* before, const cache::Class* after);
  void onNamespace(const core::Namespace* before, const core::Namespace* after);
  /// Pods of a namespace that have no node, and their claims: whether they may be scheduled has changed.
  void podsIn(const std::string& namespace_);
  void onTemplate(const cache::ClaimTemplate* before, const cache::ClaimTemplate* after);
  void onPriorityClass(const core::PriorityClass* before, const core::PriorityClass* after);
  /// Gangs that a claim named or names, if something of it is of interest to its gang.
  void gangsOf(const cache::Claim* before, const cache::Claim* after);
  void gangOf(const cache::Claim& claim);
  void onPodGroup(const core::PodGroup* before, const core::PodGroup* after);
  /// Claims of the same pods that room is being made for: together with this one.
  void plannedWith(const core::ObjectKey& claim);
  /// Claims whose device is named by one that room is made for, or was.
  void victimsOf(const cache::Claim& claim);
  void onTaintRule(const core::DeviceTaintRule* before, const core::DeviceTaintRule* after);
  /// Devices that have some of it, their claims, and claims that name it.
  void usersOfCard(const std::string& card);
  void onPlugin(const std::string& name);
  /// Held devices whose claim has, or had, that name.
  void heldFor(const core::ObjectKey& claim);
  void podsOf(const core::ObjectKey& claim);
  /// Those that wait for room have their turns.
  void roomChanged();
  /// Whether the claim has no device and its pods choose the node: then its own step enqueues those that may.
  bool isLeftToPods(const core::ObjectKey& claim) const;
  /// The registry can't forget a listener; this can.
  struct Link {
    std::mutex mutex;
    Routing* routing = nullptr;
  };

  cache::Stores& stores_;
  ClassSync& classes_;
  Users& users_;
  Waiting& waiting_;
  Provisioning& provisioning_;
  AmountsSync& amounts_;
  const Enqueue enqueue_;
  const std::shared_ptr<Link> link_;
};

}  // namespace egpu::reconcile
