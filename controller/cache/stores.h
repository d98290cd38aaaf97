// The informers' stores of everything this project looks at, with the indexes that reconciling needs.
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
#include "controller/cache/store.h"

namespace egpu::cache {

using Gpu = v1alpha::ElasticGPU;
using Claim = v1alpha::ElasticGPUClaim;
using Class = v1alpha::ElasticGPUClass;
using Quota = v1alpha::ElasticGPUQuota;
using ClaimTemplate = v1alpha::ElasticGPUClaimTemplate;

/// Why a card's object says that the card is not for use: a word and, if there are some, the words of who found it out.
/// Both empty if it doesn't say so.
struct Trouble {
  std::string reason, message;
  explicit operator bool() const { return !reason.empty(); }
  std::string text() const { return message.empty() ? reason : reason + ": " + message; }
  bool operator==(const Trouble&) const = default;
};
Trouble troubleOf(const Gpu& card);
/// Whether the two differ in status.usage, and in nothing else: nobody decides anything by it.
bool onlyUsageDiffers(const Gpu& before, const Gpu& after);
bool onlyUsageDiffers(const Claim& before, const Claim& after);
/// Whether the rule keeps claims off what is called so on the node: its effect is NoSchedule or NoExecute, and its
/// selector means our driver, the node's pool and that name, or leaves them open.
bool keepsOff(const core::DeviceTaintRule& rule, std::string_view node, std::string_view device);
/// Whether the pod is kept: it names claims, by resourceClaims or by annotation, or a PodGroup, of which every pod counts.
bool isKept(const core::Pod& pod);

/// Thread-safe, as its stores are. Listeners are registered before the reflectors start. Claims are kept without labels
/// and annotations (but for their policies and gangs), ElasticGPUs without labels, capacity, source and node affinity.
class Stores {
 public:
  Stores();
  ~Stores();
  Stores(const Stores&) = delete;
  Stores& operator=(const Stores&) = delete;

  Store<Gpu> cards;    ///< ElasticGPUs with spec.card
  Store<Gpu> devices;  ///< the others
  Store<Claim> claims;
  Store<Class> classes;
  Store<Quota> quotas;
  Store<core::Pod> pods;  ///< only those that isKept() says
  Store<core::Node> nodes;
  Store<core::ResourceClaim> carriers;
  Store<core::Namespace> namespaces;
  Store<ClaimTemplate> templates;
  Store<core::PriorityClass> priorityClasses;
  Store<core::ResourceClaimTemplate> carrierTemplates;  ///< what Kubernetes stamps ResourceClaims from
  Store<core::DeviceTaintRule> taintRules;              ///< empty where the API server has no such kind
  Store<core::PodGroup> podGroups;                      ///< empty where the API server has no such kind
  std::atomic<bool> podGroupsServed{false};             ///< it has the kind, and lets us read it
  /// Names of the schedulers that place pods here (flags --schedulers and --extender-scheduler). Constant once steps are
  /// made.
  std::set<std::string, std::less<>> servedSchedulers{std::string(core::kDefaultScheduler)};
  NodeTaints taints{nodes};
  CardModels models{cards};
  NodeUsage usage;  ///< of all pods, those without claims too

  /// Devices whose claimRef has this uid; the one that is named after it comes last.
  std::vector<Store<Gpu>::Ptr> devicesOfClaim(std::string_view claimUid) const;
  /// Devices that name this card.
  std::vector<Store<Gpu>::Ptr> devicesOnCard(std::string_view card) const { return devices.find(byCard_, card); }
  /// Devices of this provisioner that are being deleted.
  std::vector<Store<Gpu>::Ptr> devicesToUndo(std::string_view provisioner) const {
    return devices.find(byProvisioner_, provisioner);
  }
  /// Devices that nobody has and that an administrator reserved for a claim of this name: claimRef without uid.
  std::vector<Store<Gpu>::Ptr> devicesReservedFor(const core::ObjectKey& claim) const {
    return devices.find(byReservation_, claim.str());
  }
  std::vector<Store<Gpu>::Ptr> devicesInPhase(std::string_view phase) const { return devices.find(byPhase_, phase); }
  /// What keeps a card from new claims: its object, or, in second place, a DeviceTaintRule.
  Trouble troubleOf(const Gpu& card) const;
  /// The first DeviceTaintRule by name that keeps claims off the card or device of that name on the node.
  Trouble taintOn(std::string_view node, std::string_view gpu) const;
  /// Cards of which troubleOf() says something, by name.
  std::vector<Store<Gpu>::Ptr> cardsInTrouble() const;
  /// Cards that the rule keeps claims off, by name.
  std::vector<Store<Gpu>::Ptr> cardsTaintedBy(const core::DeviceTaintRule& rule) const;
  std::vector<Store<Gpu>::Ptr> cardsOnNode(std::string_view node) const { return cards.find(byCardNode_, node); }
  /// Claims whose spec names this ElasticGPU, given by their users ("egpu-<own uid>" is not listed: it follows from the
  /// uid).
  std::vector<Store<Claim>::Ptr> claimsNaming(std::string_view gpu) const { return claims.find(byGpuName_, gpu); }
  /// Claims for which this device has to go: Pending ones whose status.nominated names it as a victim.
  std::vector<Store<Claim>::Ptr> claimsPreempting(std::string_view device) const {
    return claims.find(byVictim_, device);
  }
  /// Devices whose class says preemptible, and that go with their claims.
  std::vector<Store<Gpu>::Ptr> preemptibleDevices() const { return devices.find(byPreemptible_, "yes"); }
  /// Claims of a namespace that say they are of this gang.
  std::vector<Store<Claim>::Ptr> claimsOfGang(std::string_view namespace_, std::string_view gang) const {
    return claims.find(byGang_, std::string(namespace_).append("/").append(gang));
  }
  /// Claims of a namespace that say they are of the gang of this PodGroup.
  std::vector<Store<Claim>::Ptr> claimsOfPodGroup(std::string_view namespace_, std::string_view group) const {
    return claimsOfGang(namespace_, std::string("/").append(group));
  }
  /// Pods of this PodGroup, finished ones too.
  std::vector<Store<core::Pod>::Ptr> podsOfPodGroup(std::string_view namespace_, std::string_view group) const {
    return pods.find(byPodGroup_, std::string(namespace_).append("/").append(group));
  }
  /// Pods of a namespace that have Succeeded.
  std::vector<Store<core::Pod>::Ptr> succeededPods(std::string_view namespace_) const {
    return pods.find(bySucceeded_, namespace_);
  }
  /// Claims whose spec names this PriorityClass; "" = those that name none.
  std::vector<Store<Claim>::Ptr> claimsOfPriority(std::string_view name) const {
    return claims.find(byPriorityClass_, name);
  }
  /// Claims of a class that are not Bound; "" = those that want the default class.
  std::vector<Store<Claim>::Ptr> openClaimsOfClass(std::string_view cls) const { return claims.find(byClass_, cls); }
  /// Pods, finished ones too, that use "namespace/name" of a claim.
  std::vector<Store<core::Pod>::Ptr> podsOfClaim(const core::ObjectKey& claim) const {
    return pods.find(byPodClaim_, claim.str());
  }
  /// The first pod of a claim that `accepts` returns true for: the highest priority first, or the oldest one first (those
  /// of one second by uid). Null if there is none. A claim may have thousands of pods, which podsOfClaim() copies.
  Store<core::Pod>::Ptr firstPodByPriority(const core::ObjectKey& claim,
                                           const std::function<bool(const core::Pod&)>& accepts) const;
  Store<core::Pod>::Ptr firstPodByAge(const core::ObjectKey& claim,
                                      const std::function<bool(const core::Pod&)>& accepts) const;
  /// Pods, finished ones too, that name "namespace/name" of a claim by annotation only: nothing made a resourceClaim of
  /// it.
  std::vector<Store<core::Pod>::Ptr> podsAnnotatedWith(const core::ObjectKey& claim) const {
    return pods.find(byPodAnnotation_, claim.str());
  }
  std::vector<Store<Quota>::Ptr> quotasIn(std::string_view namespace_) const {
    return quotas.find(byQuotaNamespace_, namespace_);
  }
  /// Pods that wait behind our scheduling gate.
  std::vector<Store<core::Pod>::Ptr> gatedPods() const { return pods.find(byGate_, "gated"); }

  /// Some node has a taint of effect PreferNoSchedule.
  bool anyTaintToAvoid() const { return nodes.any(byAvoided_, "yes"); }

  /// Card or device, whichever has that name; null if neither.
  Store<Gpu>::Ptr gpu(std::string_view name) const;
  Store<Gpu>& storeOf(const Gpu& gpu) { return gpu.isCard() ? cards : devices; }

  /// What the API server answered to a write or quorum read of ours, and what it said is gone.
  void observed(const Gpu& o) { storeOf(o).observed(o); }
  void observed(const Claim& o) { claims.observed(o); }
  void observed(const Class& o) { classes.observed(o); }
  void observed(const Quota& o) { quotas.observed(o); }
  void observed(const core::Pod& o) { sawPod(o); }
  void observed(const core::Node& o) { nodes.observed(o); }
  void observed(const core::ResourceClaim& o) { carriers.observed(o); }
  void observed(const ClaimTemplate& o) { templates.observed(o); }
  void observed(const core::ResourceClaimTemplate& o) { carrierTemplates.observed(o); }
  void observed(const core::Namespace& o) { namespaces.observed(o); }
  void observed(const core::DeviceTaintRule& o) { taintRules.observed(o); }
  void observed(const core::PodGroup& o) { podGroups.observed(o); }
  void observed(const core::PriorityClass& o) { priorityClasses.observed(o); }
  template <class T>
  void observedGone(const core::ObjectKey& key, std::string_view uid);

  /// Every store has had its first list. Those of DeviceTaintRules and PodGroups may never have one.
  bool synced() const;

 private:
  void indexGpus();
  void indexClaims();
  void indexPods();
  void sawPod(const core::Pod& pod);

  int byClaimUid_ = 0, byCard_ = 0, byProvisioner_ = 0, byCardNode_ = 0, byGpuName_ = 0, byClass_ = 0, byPodClaim_ = 0,
      byGate_ = 0, byAvoided_ = 0, byReservation_ = 0, byPhase_ = 0, byTrouble_ = 0, byPodAnnotation_ = 0,
      byQuotaNamespace_ = 0, byVictim_ = 0, byPriorityClass_ = 0, byPreemptible_ = 0, byGang_ = 0, byPodGroup_ = 0,
      bySucceeded_ = 0, byPodPriority_ = 0, byPodAge_ = 0;
};

template <class T>
void Stores::observedGone(const core::ObjectKey& key, std::string_view uid) {
  if constexpr (std::is_same_v<T, Gpu>) {
    cards.observedGone(key, uid);
    devices.observedGone(key, uid);
  } else if constexpr (std::is_same_v<T, Claim>) {
    claims.observedGone(key, uid);
  } else if constexpr (std::is_same_v<T, Class>) {
    classes.observedGone(key, uid);
  } else if constexpr (std::is_same_v<T, Quota>) {
    quotas.observedGone(key, uid);
  } else if constexpr (std::is_same_v<T, core::Pod>) {
    pods.observedGone(key, uid);
    usage.gone(key, uid);
  } else if constexpr (std::is_same_v<T, core::Node>) {
    nodes.observedGone(key, uid);
  } else if constexpr (std::is_same_v<T, ClaimTemplate>) {
    templates.observedGone(key, uid);
  } else if constexpr (std::is_same_v<T, core::ResourceClaimTemplate>) {
    carrierTemplates.observedGone(key, uid);
  } else if constexpr (std::is_same_v<T, core::Namespace>) {
    namespaces.observedGone(key, uid);
  } else if constexpr (std::is_same_v<T, core::DeviceTaintRule>) {
    taintRules.observedGone(key, uid);
  } else if constexpr (std::is_same_v<T, core::PodGroup>) {
    podGroups.observedGone(key, uid);
  } else if constexpr (std::is_same_v<T, core::PriorityClass>) {
    priorityClasses.observedGone(key, uid);
  } else {
    carriers.observedGone(key, uid);
  }
}

}  // namespace egpu::cache
