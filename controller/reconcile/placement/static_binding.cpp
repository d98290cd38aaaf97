#include "controller/reconcile/placement/static_binding.h"

#include <algorithm>
#include <bit>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "api/v1alpha/remote.h"
#include "api/v1alpha/size.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/claim/remote_intent.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/priority/priority.h"
#include "controller/reconcile/queue_key.h"
#include "controller/scheduler/mig/placement.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;

std::optional<Outcome> StaticBinding::reconcile(const ClaimPtr& claim, std::stop_token stop) {
  GpuPtr given;
  if (isStatic(*claim)) {
    given = context_.stores.gpu(claim->spec.elasticGPUName);
    if (!given) {
      auto now = context_.writer.read<cache::Gpu>({"", claim->spec.elasticGPUName}, {}, stop);
      if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
      if (!now.ok())
        return Outcome::done().reports(notBound(*claim, reason::kStaticNotAvailable,
                                                "ElasticGPU \"" + claim->spec.elasticGPUName + "\" not found"));
      given = std::make_shared<const cache::Gpu>(*now);
    }
    if (!given->isDevice()) return std::nullopt;  // it names a card, so a new device is made
  } else {
    given = preboundDeviceFor(context_.stores, *claim);
    if (!given) return std::nullopt;
  }
  const auto refusal = context_.waiting.provisioners.refusal(claim->metadata.uid);
  return refusal.empty() ? bind(claim, given, stop) : parts_.intents.reportRefusal(*claim, refusal);
}

bool StaticBinding::hasInstances(const cache::Gpu& device, const scheduler::MigInstances& want) const {
  const auto& shares = device.spec.cards;
  if (plugin::migProfileOf(device).empty() || shares.size() != 1) return false;
  const auto card = context_.stores.cards.get({"", shares.front().name});
  if (!card) return false;
  const auto* profile = scheduler::mig::findProfile(card->spec.card->mig, want.profile);
  if (profile == nullptr || profile->name != plugin::migProfileOf(device)) return false;
  const auto slots = shares.front().slots.without({1u << v1alpha::Slots::kMedia});
  return std::popcount(slots.bits) >= profile->size * want.instances;
}

bool StaticBinding::isLargeEnough(const cache::Gpu& device, const scheduler::Request& want) const {
  if (v1alpha::isRemote(device)) return reconcile::isLargeEnough(device, want);
  if (!want.mig.profile.empty()) return hasInstances(device, want.mig);
  int64_t core = 0, memory = 0, enough = 0;
  const bool follows = device.spec.source && device.spec.source->kind == v1alpha::SourceKind::physicalGPU;
  for (const auto& share : v1alpha::cardsInForce(device)) {
    core += share.core;
    memory += share.memory;
    if (!want.wholeCards) {
      enough += share.core >= want.perCard.core && share.memory >= want.perCard.memory ? 1 : 0;
      continue;
    }
    constexpr int64_t kWholeCore = 1000;
    const auto card = context_.stores.cards.get({"", share.name});
    const bool all = share.core >= (card ? card->spec.card->core : kWholeCore);
    // The memory of a device of whole cards is adapted to its cards once it is bound.
    const bool hasMemory = follows || share.memory >= (card ? card->spec.card->memory : 0);
    enough += all && hasMemory ? 1 : 0;
  }
  // Without a number of cards, the amounts are totals over the device.
  if (want.cards == 1 && !want.wholeCards) return core >= want.perCard.core && memory >= want.perCard.memory;
  return enough >= want.cards;
}

std::string StaticBinding::notAvailable(const cache::Claim& claim, const cache::Gpu& device) const {
  const auto name = "device " + device.metadata.name;
  if (const auto& ref = device.spec.claimRef) {
    const core::ObjectKey of{ref->namespace_, ref->name};
    // The user may not be allowed to read the namespace of the device's claim.
    const auto who = of.namespace_ == claim.metadata.namespace_ ? "claim " + of.str() : "a claim of another namespace";
    if (ref->reserves() && of != core::keyOf(claim.metadata))
      return name + " is reserved for " + who + " by its spec.claimRef; name another device, or none";
    const auto holder = context_.stores.claims.get(of);
    const bool retained = device.status.phase == phase::kReleased && (!holder || holder->metadata.uid != ref->uid);
    if (retained)
      return name + " is Released: it was retained for " + who +
             ", which is gone; clear its spec.claimRef to make it Available";
    if (!ref->reserves()) return name + " belongs to " + who;
  }
  if (device.spec.adminAccess != claim.spec.adminAccess)
    return name + (device.spec.adminAccess ? " is for admin access only" : " is not for admin access: name a card");
  if (device.metadata.deleting()) return name + " is being deleted";
  if (device.status.phase.empty()) return name + " is not ready";
  if (device.status.phase != phase::kAvailable)
    return name + " is " + device.status.phase + (device.status.message.empty() ? "" : ": " + device.status.message);
  const auto& cls = claim.spec.effectiveClass();
  if (!cls.empty() && cls != device.spec.className)
    return name + " is of class \"" + device.spec.className + "\", the claim of \"" + cls + "\"";
  return {};
}

std::string StaticBinding::againstClass(const cache::Gpu& device, const cache::Class& cls,
                                        const scheduler::Request& want) const {
  const auto name = "device " + device.metadata.name;
  for (const auto& share : device.spec.cards) {
    const auto card = context_.stores.cards.get({"", share.name});
    if (!card) continue;
    const auto& have = *card->spec.card;
    if (!want.models.empty() && std::find(want.models.begin(), want.models.end(), have.model) == want.models.end())
      return name + " is of a card of model \"" + have.model + "\", which class " + cls.metadata.name +
             " does not give out";
    if (have.memory < want.minMemory)
      return name + " is of a card of " + v1alpha::formatBytes(have.memory) + ", class " + cls.metadata.name +
             " gives out cards of at least " + v1alpha::formatBytes(want.minMemory);
  }
  // The tolerations of its pods count.
  if (cls.bindingMode == "WaitForFirstConsumer" || v1alpha::isOnAnyNode(device)) return {};
  const auto taint = untoleratedTaint(context_.stores, cls, device.spec.nodeName);
  if (!taint.empty())
    return name + " is on node " + device.spec.nodeName + " with taint " + taint + ", which class " +
           cls.metadata.name + " does not tolerate";
  const auto node = context_.stores.nodes.get({"", device.spec.nodeName});
  return node && node->unschedulable ? name + " is on node " + device.spec.nodeName + ", which is cordoned"
                                     : std::string();
}

std::optional<Outcome> StaticBinding::checkRules(const cache::Claim& claim, const cache::Gpu& named,
                                                 std::stop_token stop) {
  if (const auto refusal = adminAccessRefusal(context_.stores, claim))
    return Outcome::done().reports(ConditionUpdate::of(claim.metadata, ConditionUpdate::As::notAccepted,
                                                       refusal->reason, refusal->field + ": " + refusal->message));
  const auto& className = named.spec.className;
  const bool asks = !claim.spec.requests.empty() || !claim.spec.firstAvailable.empty();
  const bool isRemoteOfClass = v1alpha::isRemote(named) && !className.empty();
  const bool asksForAmounts = asks && (!named.spec.cards.empty() || isRemoteOfClass);
  // A device without a class was made by hand for any claim that names it. The class of any other device decides.
  if (className.empty() && !asksForAmounts) return std::nullopt;
  auto cls =
      className.empty() ? classOf(context_.stores, claim, nullptr) : context_.stores.classes.get({"", className});
  if (!cls && !className.empty()) {  // classes and devices come by different watches
    const auto now = context_.writer.read<cache::Class>({"", className}, {}, stop);
    if (now.ok()) return Outcome::requeueNow();
    if (now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
    return Outcome::done().reports(
        ConditionUpdate::of(claim.metadata, ConditionUpdate::As::notAccepted, reason::kClassNotFound,
                            "ElasticGPUClass \"" + className + "\" of device " + named.metadata.name +
                                " not found: access can't be checked"));
  }
  const auto asked = cls ? parts_.resolver.resolve(claim, std::move(cls)) : parts_.resolver.resolve(claim);
  if (asked.later) return Outcome::after(context_.timeouts.busyPluginInterval);
  if (!asked.ok()) return Outcome::done().reports(asked.refusal(claim));
  std::string first;  // problem of the first alternative
  for (std::size_t i = 0; i < asked.alternatives(); ++i) {
    const auto& want = i == 0 ? asked.request : asked.otherwise[i - 1];
    auto why = className.empty() ? std::string() : againstClass(named, *asked.cls, want);
    if (why.empty() && asksForAmounts && !isLargeEnough(named, want))
      why = "device " + named.metadata.name + " is smaller than requested";
    if (why.empty()) return std::nullopt;
    if (i == 0) first = std::move(why);
  }
  return Outcome::done().reports(notBound(claim, reason::kStaticNotAvailable, first));
}

std::optional<Outcome> StaticBinding::reserveQuota(const cache::Claim& claim, const cache::Gpu& device) {
  if (device.spec.adminAccess) return std::nullopt;
  const auto& uid = claim.metadata.uid;
  const auto queueKey = claimKey(core::keyOf(claim.metadata));
  const auto priority = priorityOf(context_.stores, claim).value;
  const allocator::Allocator::SchedulingRequest ask{uid,
                                                    core::keyOf(claim.metadata).str(),
                                                    {},
                                                    {},
                                                    device.spec.className,
                                                    queueOrderOf(claim, priority, context_.clock.wall())};
  ResolvedClaim refused;
  if (parts_.resolver.awaitQuotaChange(claim, refused)) return Outcome::done().reports(refused.refusal(claim));
  // Added before the quota is checked. No other claim takes the device that it names, so it need not yield.
  context_.waiting.unschedulable.add(queueKey, ageOf(claim.metadata), priority, {{ask}, device.metadata.name});
  if (const auto excess = context_.cluster.chargeQuotas(ask, device)) return parts_.report.overQuota(claim, *excess);
  context_.waiting.unschedulable.remove(queueKey);
  return std::nullopt;
}

Outcome StaticBinding::bind(const ClaimPtr& claim, const GpuPtr& named, std::stop_token stop) {
  if (const auto why = notAvailable(*claim, *named); !why.empty())
    return Outcome::done().reports(notBound(*claim, reason::kStaticNotAvailable, why));
  if (const auto outcome = checkRules(*claim, *named, stop)) return *outcome;
  if (auto outcome = reserveQuota(*claim, *named)) return *std::move(outcome);
  const auto device = context_.binder.writeClaimRef(*named, *claim, stop);  // W1
  if (!device.ok()) context_.cluster.forget(claim->metadata.uid);
  // Continues with (C7). 409: another writer was first; the device was read again.
  if (device.ok() || device.status().code() == base::Code::conflict) return Outcome::requeueNow();
  return Outcome::retry(device.status());
}

}  // namespace egpu::reconcile
