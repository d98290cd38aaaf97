// Stores of all objects that the controller reads, with the indexes that reconciling needs.
#pragma once

#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"
#include "controller/cache/card_models.h"
#include "controller/cache/node_taints.h"
#include "controller/cache/node_usage.h"
#include "controller/cache/remote_provisioners.h"
#include "controller/cache/store.h"

namespace egpu::cache {

using Gpu = v1alpha::ElasticGPU;
using Claim = v1alpha::ElasticGPUClaim;
using Class = v1alpha::ElasticGPUClass;
using Quota = v1alpha::ElasticGPUQuota;
using ClaimTemplate = v1alpha::ElasticGPUClaimTemplate;

/// Reason why a card must not be used, according to its object, and the message of the component that found it, if any.
/// Both are empty if the object reports none.
struct Trouble {
  std::string reason, message;
  explicit operator bool() const { return !reason.empty(); }
  std::string text() const { return message.empty() ? reason : reason + ": " + message; }
  bool operator==(const Trouble&) const = default;
};
Trouble troubleOf(const Gpu& card);
/// True if the two differ in status.usage only. No decision depends on the usage.
bool onlyUsageDiffers(const Gpu& before, const Gpu& after);
bool onlyUsageDiffers(const Claim& before, const Claim& after);
/// True if the rule keeps claims off this card or device of the node: its effect is NoSchedule or NoExecute, and its
/// selector names our driver, the node's pool and this device, or leaves them open.
bool repels(const core::DeviceTaintRule& rule, std::string_view node, std::string_view device);
/// True if the pod is stored: it names claims, by resourceClaims or annotation, or a PodGroup (all pods of which
/// count).
bool isStored(const core::Pod& pod);

/// Thread-safe, as its stores are. Register listeners before the reflectors start. Claims are stored without labels,
/// and with the annotations for policies, moves and gangs only; ElasticGPUs without labels, capacity, source and node
/// affinity.
class Stores {
 public:
  Stores();
  ~Stores();
  Stores(const Stores&) = delete;
  Stores& operator=(const Stores&) = delete;

  Store<Gpu> cards;    ///< ElasticGPUs with spec.card
  Store<Gpu> devices;  ///< all other ElasticGPUs
  Store<Claim> claims;
  Store<Class> classes;
  Store<Quota> quotas;
  Store<core::Pod> pods;  ///< only those that isStored() accepts
  Store<core::Node> nodes;
  Store<core::ResourceClaim> resourceClaims;
  Store<core::Namespace> namespaces;
  Store<ClaimTemplate> templates;
  Store<core::PriorityClass> priorityClasses;
  Store<core::ResourceClaimTemplate> resourceClaimTemplates;  ///< Kubernetes creates ResourceClaims from these
  Store<core::DeviceTaintRule> taintRules;                    ///< empty if the API server does not serve the kind
  Store<core::PodGroup> podGroups;                            ///< empty if the API server does not serve the kind
  std::atomic<bool> podGroupsServed{false};                   ///< the API server serves the kind and permits reading it
  /// Names of the schedulers that place pods here (flags --schedulers and --extender-scheduler). Constant after the
  /// first step.
  std::set<std::string, std::less<>> servedSchedulers{std::string(core::kDefaultScheduler)};
  RemoteProvisioners remoteProvisioners;  ///< as far as the loaded plugins have described themselves
  NodeTaints taints{nodes};
  CardModels models{cards};
  NodeUsage usage;  ///< sums over all pods, including pods without claims

  /// Devices whose claimRef has this uid; the device that is named after the uid comes last.
  std::vector<Store<Gpu>::Ptr> devicesOfClaim(std::string_view claimUid) const;
  /// Devices that name this card.
  std::vector<Store<Gpu>::Ptr> devicesOnCard(std::string_view card) const { return devices.find(byCard_, card); }
  /// Devices of this provisioner that are being deleted.
  std::vector<Store<Gpu>::Ptr> devicesToUndo(std::string_view provisioner) const {
    return devices.find(byProvisioner_, provisioner);
  }
  /// Unbound devices that an administrator reserved for a claim of this name: claimRef without uid.
  std::vector<Store<Gpu>::Ptr> devicesReservedFor(const core::ObjectKey& claim) const {
    return devices.find(byReservation_, claim.str());
  }
  std::vector<Store<Gpu>::Ptr> devicesInPhase(std::string_view phase) const { return devices.find(byPhase_, phase); }
  /// Reason why new claims must not use the card: from its object or, if that has none, from a DeviceTaintRule.
  Trouble troubleOf(const Gpu& card) const;
  /// The first DeviceTaintRule by name that keeps claims off the card or device of that name on the node.
  Trouble taintOn(std::string_view node, std::string_view gpu) const;
  /// Cards for which troubleOf() is not empty, sorted by name.
  std::vector<Store<Gpu>::Ptr> cardsInTrouble() const;
  /// Cards that the rule keeps claims off, by name.
  std::vector<Store<Gpu>::Ptr> cardsTaintedBy(const core::DeviceTaintRule& rule) const;
  std::vector<Store<Gpu>::Ptr> cardsOnNode(std::string_view node) const { return cards.find(byCardNode_, node); }
  /// Claims whose spec names this ElasticGPU by their user's choice. The name "egpu-<own uid>" does not count.
  std::vector<Store<Claim>::Ptr> claimsNaming(std::string_view gpu) const { return claims.find(byGpuName_, gpu); }
  /// Claims that need the device as a victim: Pending claims whose status.nominated names it.
  std::vector<Store<Claim>::Ptr> claimsPreempting(std::string_view device) const {
    return claims.find(byVictim_, device);
  }
  /// Devices whose class is preemptible, and that are deleted with their claims.
  std::vector<Store<Gpu>::Ptr> preemptibleDevices() const { return devices.find(byPreemptible_, "yes"); }
  /// Claims of a namespace whose annotation names this gang.
  std::vector<Store<Claim>::Ptr> claimsOfGang(std::string_view namespace_, std::string_view gang) const {
    return claims.find(byGang_, std::string(namespace_).append("/").append(gang));
  }
  /// Claims of a namespace whose annotation names the gang of this PodGroup.
  std::vector<Store<Claim>::Ptr> claimsOfPodGroup(std::string_view namespace_, std::string_view group) const {
    return claimsOfGang(namespace_, std::string("/").append(group));
  }
  /// Pods of this PodGroup, including finished ones.
  std::vector<Store<core::Pod>::Ptr> podsOfPodGroup(std::string_view namespace_, std::string_view group) const {
    return pods.find(byPodGroup_, std::string(namespace_).append("/").append(group));
  }
  /// Pods of a namespace in phase Succeeded.
  std::vector<Store<core::Pod>::Ptr> succeededPods(std::string_view namespace_) const {
    return pods.find(bySucceeded_, namespace_);
  }
  /// Claims whose spec names this PriorityClass. "" = claims that name none and are not Bound.
  std::vector<Store<Claim>::Ptr> claimsOfPriority(std::string_view name) const {
    return claims.find(byPriorityClass_, name);
  }
  /// Claims of a class that are not Bound; "" = claims without a class name.
  std::vector<Store<Claim>::Ptr> openClaimsOfClass(std::string_view cls) const { return claims.find(byClass_, cls); }
  /// Pods, including finished ones, that use the claim.
  std::vector<Store<core::Pod>::Ptr> podsOfClaim(const core::ObjectKey& claim) const {
    return pods.find(byPodClaim_, claim.str());
  }
  /// The first pod of a claim that `accepts` returns true for: the highest priority first, or the oldest one first
  /// (those of one second by uid). Null if there is none. A claim may have thousands of pods, which podsOfClaim()
  /// copies.
  Store<core::Pod>::Ptr firstPodByPriority(const core::ObjectKey& claim,
                                           const std::function<bool(const core::Pod&)>& accepts) const;
  Store<core::Pod>::Ptr firstPodByAge(const core::ObjectKey& claim,
                                      const std::function<bool(const core::Pod&)>& accepts) const;
  /// Pods, including finished ones, that name the claim by annotation only: they have no resourceClaim for it.
  std::vector<Store<core::Pod>::Ptr> podsAnnotatedWith(const core::ObjectKey& claim) const {
    return pods.find(byPodAnnotation_, claim.str());
  }
  std::vector<Store<Quota>::Ptr> quotasIn(std::string_view namespace_) const {
    return quotas.find(byQuotaNamespace_, namespace_);
  }
  /// Pods with our scheduling gate.
  std::vector<Store<core::Pod>::Ptr> gatedPods() const { return pods.find(byGate_, "gated"); }

  /// True if a node has a taint of effect PreferNoSchedule.
  bool anyTaintToAvoid() const { return nodes.any(byAvoided_, "yes"); }

  /// Returns the card or the device of that name; null if there is neither.
  Store<Gpu>::Ptr gpu(std::string_view name) const;
  Store<Gpu>& storeOf(const Gpu& gpu) { return gpu.isCard() ? cards : devices; }

  /// Stores the API server's answer to our own write or quorum read; observedGone() records that an object is gone.
  template <class T>
  void observed(const T& object);
  template <class T>
  void observedGone(const core::ObjectKey& key, std::string_view uid);

  /// True if every store has had its first list, except DeviceTaintRules and PodGroups, which may never have one.
  bool synced() const;

 private:
  /// The store of a kind, except ElasticGPUs, which have two.
  template <class T>
  Store<T>& store();
  void indexGpus();
  void indexClaims();
  void indexPods();

  int byClaimUid_ = 0, byCard_ = 0, byProvisioner_ = 0, byCardNode_ = 0, byGpuName_ = 0, byClass_ = 0, byPodClaim_ = 0,
      byGate_ = 0, byAvoided_ = 0, byReservation_ = 0, byPhase_ = 0, byTrouble_ = 0, byPodAnnotation_ = 0,
      byQuotaNamespace_ = 0, byVictim_ = 0, byPriorityClass_ = 0, byPreemptible_ = 0, byGang_ = 0, byPodGroup_ = 0,
      bySucceeded_ = 0, byPodPriority_ = 0, byPodAge_ = 0;
};

template <class T>
Store<T>& Stores::store() {
  if constexpr (std::is_same_v<T, Claim>) {
    return claims;
  } else if constexpr (std::is_same_v<T, Class>) {
    return classes;
  } else if constexpr (std::is_same_v<T, Quota>) {
    return quotas;
  } else if constexpr (std::is_same_v<T, core::Pod>) {
    return pods;
  } else if constexpr (std::is_same_v<T, core::Node>) {
    return nodes;
  } else if constexpr (std::is_same_v<T, ClaimTemplate>) {
    return templates;
  } else if constexpr (std::is_same_v<T, core::ResourceClaimTemplate>) {
    return resourceClaimTemplates;
  } else if constexpr (std::is_same_v<T, core::Namespace>) {
    return namespaces;
  } else if constexpr (std::is_same_v<T, core::DeviceTaintRule>) {
    return taintRules;
  } else if constexpr (std::is_same_v<T, core::PodGroup>) {
    return podGroups;
  } else if constexpr (std::is_same_v<T, core::PriorityClass>) {
    return priorityClasses;
  } else {
    return resourceClaims;
  }
}

template <class T>
void Stores::observed(const T& object) {
  if constexpr (std::is_same_v<T, Gpu>) {
    storeOf(object).observed(object);
  } else {
    store<T>().observed(object);
  }
}
/// Counts the pod's usage, and stores it if isStored() accepts it.
template <>
void Stores::observed(const core::Pod& pod);

template <class T>
void Stores::observedGone(const core::ObjectKey& key, std::string_view uid) {
  if constexpr (std::is_same_v<T, Gpu>) {
    cards.observedGone(key, uid);
    devices.observedGone(key, uid);
  } else {
    store<T>().observedGone(key, uid);
    if constexpr (std::is_same_v<T, core::Pod>) usage.gone(key, uid);
  }
}

}  // namespace egpu::cache
