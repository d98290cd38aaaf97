#include "controller/reconcile/claim/claim.h"

#include <algorithm>
#include <variant>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "controller/base/log.h"
#include "controller/reconcile/api_rejections.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {
constexpr milliseconds kPluginBusy{50};
constexpr milliseconds kPollBackground{500};
constexpr milliseconds kAvailableSoon{500};
constexpr milliseconds kUsualCall{1'000};
constexpr milliseconds kExplainEvery{15'000};
constexpr milliseconds kRefusedFor{300'000};
constexpr int kStaleDecisions = 3;       ///< so often a ledger may refuse before it is not only a race
constexpr std::size_t kMostNamed = 3;    ///< cards or devices in a message
constexpr std::size_t kMostSaid = 200;   ///< of what was found out about a card
constexpr int64_t kLedgerEntries = 128;  ///< on one card, by its CRD

/// How long a claim rests after the API server said 422 to its decision for the `times`-th time.
milliseconds afterRefusals(int times) { return std::min(milliseconds(1000 << std::min(times - 1, 10)), kRefusedFor); }
}  // namespace

Outcome ClaimSync::step(const core::ObjectKey& key, std::stop_token stop) {
  const auto claim = stores_.claims.get(key);
  auto outcome = look(key, claim, stop);
  if (claim) forgetIfGone(key, claim->metadata.uid);
  return outcome;
}

void ClaimSync::forgetIfGone(const core::ObjectKey& key, const std::string& uid) {
  const auto now = stores_.claims.get(key);
  if (!now || now->metadata.uid != uid) waiting_.forgetClaim(uid);
}

Outcome ClaimSync::look(const core::ObjectKey& key, const ClaimPtr& claim, std::stop_token stop) {
  // A write of unknown outcome leaves its decision assumed; with the claim that ends.
  cluster_.forgetEarlier(key.str(), claim ? claim->metadata.uid : std::string());
  if (!claim) {
    waiting_.satisfied(claimKey(key));
    return Outcome::done();  // devices that name it have steps of their own
  }
  if (claim->metadata.deleting()) return releasing(claim, stop);
  auto device = deviceOf(*claim);
  waiting_.satisfied(claimKey(key));  // until it is seen to wait
  if (!device) return unbound(claim, stop);
  if (device->status.phase == phase::kFailed)
    return lost(claim, device, device->status.message.empty() ? "the device failed" : device->status.message, stop);
  if (device->status.phase == phase::kBound) return committing(claim, device, stop);
  if (device->status.phase == phase::kReleased)  // only by somebody's hand: release needs the claim to be going
    return lost(claim, device, "device " + device->metadata.name + " was released under the claim", stop);
  // OBSERVATION: phase is "", Pending or Available: not committed.
  if (device->metadata.deleting()) return Outcome::done();  // rolled back; its last event brings us here again
  if (isStatic(*claim) && device->metadata.name != claim->spec.elasticGPUName && !reserved(*claim) &&
      std::none_of(device->spec.cards.begin(), device->spec.cards.end(),
                   [&](const auto& share) { return share.name == claim->spec.elasticGPUName; }))
    return giveUp(*claim, *device, {}, stop);  // its user chose meanwhile
  return intended(claim, device, stop);
}

Outcome ClaimSync::calls(const std::string& plugin, std::stop_token stop) {
  const auto underWay = provisioning_.underWay(plugin);
  for (const auto& [key, since] : underWay) {
    if (clock_.now() - since < kUsualCall) continue;
    const auto claim = stores_.claims.get(key);
    if (!claim || claim->metadata.deleting() || claim->status.phase == phase::kBound) continue;
    const auto* said = findCondition(claim->status.conditions, kBound);
    if (said != nullptr && said->reason == reason::kProvisioning) continue;
    // Its own step waits for the plugin and goes on with what it finds then.
    const auto status = status_.pending(*claim, kBound, reason::kProvisioning, plugin + ": provisioning", stop);
    if (!status.ok()) base::log::debug("not said on the claim", {{"claim", key.str()}, {"why", status.str()}});
  }
  return underWay.empty() ? Outcome::done() : Outcome::after(kUsualCall);
}

cache::Store<cache::Gpu>::Ptr ClaimSync::deviceOf(const cache::Claim& claim) const {
  auto devices = stores_.devicesOfClaim(claim.metadata.uid);
  if (devices.empty()) return nullptr;
  for (const auto& device : devices)
    if (device->metadata.name == claim.status.elasticGPUName) return device;
  for (const auto& device : devices)
    if (!device->metadata.deleting()) return device;
  return devices.front();
}

bool ClaimSync::isStatic(const cache::Claim& claim) {
  return !claim.spec.elasticGPUName.empty() && claim.spec.elasticGPUName != deviceNameFor(claim);
}

ClaimSync::GpuPtr ClaimSync::reservedFor(const cache::Claim& claim) const {
  const auto reserved = stores_.devicesReservedFor(core::keyOf(claim.metadata));
  const auto available = std::find_if(reserved.begin(), reserved.end(), [](const auto& device) {
    return device->status.phase == phase::kAvailable && !device->metadata.deleting();
  });
  if (available != reserved.end()) return *available;
  return reserved.empty() ? nullptr : reserved.front();
}

bool ClaimSync::takesDevice(const cache::Claim& claim) const {
  return isStatic(claim) ? stores_.cards.get({"", claim.spec.elasticGPUName}) == nullptr
                         : reservedFor(claim) != nullptr;
}

bool ClaimSync::waitsForConsumer(const cache::Claim& claim) const {
  // Once decided, the class that it was decided by: the default may be another one by now.
  if (auto device = deviceOf(claim); device && !device->spec.className.empty()) {
    auto cls = stores_.classes.get({"", device->spec.className});
    return cls && cls->bindingMode == "WaitForFirstConsumer";
  }
  auto cls = classOf(stores_, claim, nullptr);
  return cls && cls->bindingMode == "WaitForFirstConsumer";
}

bool ClaimSync::inUse(const cache::Claim& claim) const { return !users_.known(core::keyOf(claim.metadata)).empty(); }

base::Result<bool> ClaimSync::inUse(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  if (inUse(claim)) return true;
  const auto pods = users_.look(core::keyOf(claim.metadata), device.spec.nodeName, stop);
  if (!pods.ok()) return pods.status();
  return !pods->empty();
}

std::string ClaimSync::users(const cache::Claim& claim) const {
  const auto pods = users_.known(core::keyOf(claim.metadata));
  if (pods.empty()) return "its ResourceClaim to be no longer reserved";
  return "pod " + pods.front()->metadata.name + (pods.size() > 1 ? " and others" : "") + " to end";
}

Asked ClaimSync::ask(const cache::Claim& claim) {
  Asked asked;
  asked.type = std::string(kAccepted);
  const auto cls = classOf(stores_, claim, &asked.message);
  if (cls) return askOf(claim, cls);
  asked.reason = std::string(reason::kClassNotFound);  // (C2)
  return asked;
}

Asked ClaimSync::askOf(const cache::Claim& claim, cache::Store<cache::Class>::Ptr cls) {
  Asked asked;
  asked.type = std::string(kAccepted);
  asked.cls = std::move(cls);
  const auto ready = classes_.readiness(*asked.cls);
  if (ready.later) {
    asked.later = true;
    return asked;
  }
  if (!ready.ready()) {  // (C3) or (C4)
    asked.type = std::string(ready.reason == reason::kInvalidParameter ? kAccepted : kBound);
    asked.reason = ready.reason;
    asked.message = "class " + asked.cls->metadata.name + ": " + ready.message;
    return asked;
  }
  auto made = requestOf(stores_, claim, *asked.cls);
  if (auto* refusal = std::get_if<scheduler::Refusal>(&made)) {  // (C4)
    asked.reason = refusal->reason;
    asked.message = (refusal->field.empty() ? "" : refusal->field + ": ") + refusal->message;
    return asked;
  }
  asked.request = std::get<scheduler::Request>(std::move(made));
  return asked;
}

std::variant<scheduler::Request, scheduler::Refusal> ClaimSync::requestOf(const cache::Stores& stores,
                                                                          const cache::Claim& claim,
                                                                          const cache::Class& cls) {
  if (auto refusal = accessRefusal(stores, cls, claim.metadata.namespace_)) return *std::move(refusal);
  auto made = scheduler::makeRequest(claim, cls);
  if (std::holds_alternative<scheduler::Refusal>(made)) return made;
  auto request = std::get<scheduler::Request>(std::move(made));
  if (isStatic(claim)) request.pinnedCards = {claim.spec.elasticGPUName};
  // The ledger holds no more, whatever room is left: a claim more would be refused there, and decided so again.
  auto& most = request.maxClaimsPerCard;
  if (most == 0 || most > kLedgerEntries) most = kLedgerEntries;
  return request;
}

base::Result<bool> ClaimSync::classCame(const cache::Claim& claim, std::stop_token stop) {
  const auto& name = claim.spec.effectiveClass();
  if (!name.empty()) {
    const auto now = writer_.read<cache::Class>({"", name}, {}, stop);
    if (!now.ok() && now.status().code() != base::Code::notFound) return now.status();
  } else {
    const auto all = writer_.client().listAll<cache::Class>({}, stop);
    if (!all.ok()) return all.status();
    for (const auto& cls : *all) stores_.observed(cls);
  }
  return classOf(stores_, claim, nullptr) != nullptr;
}

Outcome ClaimSync::refuse(const cache::Claim& claim, std::string_view type, std::string_view why,
                          const std::string& message, std::stop_token stop) {
  return Outcome::ofWrite(status_.pending(claim, type, why, message, stop));
}

Outcome ClaimSync::unbound(const ClaimPtr& claim, std::stop_token stop) {
  if (claim->spec.elasticGPUName == deviceNameFor(*claim) || !claim->status.elasticGPUName.empty())
    if (const auto outcome = withoutItsDevice(claim, stop)) return *outcome;
  if (const auto outcome = givenDevice(claim, stop)) return *outcome;
  const auto asked = ask(*claim);
  if (asked.later) return Outcome::after(kPluginBusy);
  if (!asked.cls) {  // classes and claims come by different watches
    const auto come = classCame(*claim, stop);
    if (!come.ok()) return Outcome::retry(come.status());
    if (*come) return Outcome::after(milliseconds(0));
  }
  if (!asked.ok()) {
    cluster_.forget(claim->metadata.uid);
    return refuse(*claim, asked.type, asked.reason, asked.message, stop);
  }
  if (auto refusal = waiting_.refusal(claim->metadata.uid); !refusal.empty()) return refused(*claim, refusal, stop);
  return asked.cls->bindingMode == "WaitForFirstConsumer" ? leaveToConsumer(*claim, stop) : choose(claim, asked, stop);
}

std::optional<Outcome> ClaimSync::withoutItsDevice(const ClaimPtr& claim, std::stop_token stop) {
  // OBSERVATION: the claim names its own device, or says Bound, and the cache has no such device: late, or gone.
  const auto& name = claim->status.elasticGPUName.empty() ? claim->spec.elasticGPUName : claim->status.elasticGPUName;
  auto now = writer_.read<cache::Gpu>({"", name}, {}, stop);
  if (now.ok() && belongsTo(*now, *claim)) return Outcome::after(milliseconds(0));
  if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
  if (now.ok() && name == deviceNameFor(*claim) && !now->spec.claimRef && !now->metadata.deleting()) {
    // Somebody took it from its claim, and nobody else has it: it is this claim's by name.
    if (now->status.phase == phase::kAvailable)
      return staticallyBound(claim, std::make_shared<const cache::Gpu>(*now), stop);
    if (now->status.phase != phase::kFailed) return Outcome::after(kAvailableSoon);
  }
  if (claim->status.phase == phase::kBound) {
    auto outcome = lost(claim, nullptr, "device " + name + " is gone", stop);
    return outcome.kind == Outcome::Kind::done ? Outcome::after(milliseconds(0)) : outcome;
  }
  if (claim->status.phase == phase::kLost) {
    if (inUse(*claim) || (isStatic(*claim) && !stores_.gpu(claim->spec.elasticGPUName))) return Outcome::done();
    const auto carrier = carrier_.release(core::keyOf(claim->metadata), claim->metadata.uid, name, stop);
    if (carrier.state == Carrier::Release::failed) return Outcome::retry(carrier.error);
    if (carrier.state == Carrier::Release::inUse) return Outcome::done();
  }
  return std::nullopt;
}

std::optional<Outcome> ClaimSync::givenDevice(const ClaimPtr& claim, std::stop_token stop) {
  GpuPtr given;
  if (isStatic(*claim)) {
    given = stores_.gpu(claim->spec.elasticGPUName);
    if (!given) {
      auto now = writer_.read<cache::Gpu>({"", claim->spec.elasticGPUName}, {}, stop);
      if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
      if (!now.ok())
        return refuse(*claim, kBound, reason::kStaticNotAvailable,
                      "ElasticGPU \"" + claim->spec.elasticGPUName + "\" not found", stop);
      given = std::make_shared<const cache::Gpu>(*now);
    }
    if (!given->isDevice()) return std::nullopt;  // it names a card, of which a device is to be made
  } else {
    given = reservedFor(*claim);
    if (!given) return std::nullopt;
  }
  const auto refusal = waiting_.refusal(claim->metadata.uid);
  return refusal.empty() ? staticallyBound(claim, given, stop) : refused(*claim, refusal, stop);
}

Outcome ClaimSync::leaveToConsumer(const cache::Claim& claim, std::stop_token stop) {
  bool consumed = false;
  for (const auto& pod : stores_.podsOfClaim(core::keyOf(claim.metadata))) {
    if (!alive(*pod)) continue;
    consumed = true;
    enqueue_(podKey(core::keyOf(pod->metadata)));  // what kept it from choosing may be what brought us here
  }
  if (consumed) return Outcome::done();
  return refuse(claim, kBound, reason::kWaitingForConsumer, "waits for the first pod that uses the claim", stop);
}

Outcome ClaimSync::choose(const ClaimPtr& claim, const Asked& asked, std::stop_token stop) {
  const auto queueKey = claimKey(core::keyOf(claim->metadata));
  const auto& uid = claim->metadata.uid;
  // Before deciding: room, and taints that go, from now on bring us here again.
  waiting_.forRoom(queueKey, ageOf(claim->metadata));
  // No pod is known whose tolerations count: the class's do.
  const bool anyRejected = waiting_.anyRejected(uid);
  const auto nodes = anyRejected ? std::string() : toleratedNodesText(stores_, *asked.cls);
  const auto tolerated = toleratedNodes(stores_, *asked.cls);
  const auto suits = !anyRejected ? tolerated : scheduler::NodePredicate([this, &uid, &tolerated](auto node) {
    return !waiting_.rejected(uid, node) && (!tolerated || tolerated(node));
  });
  const auto decision = decide(*claim, asked.request, suits, nodes);
  if (!decision.fits) {
    const auto outcome = noFit(*claim, asked.request, suits, nodes, stop, [&] {
      const auto taints = untoleratedText(stores_, *asked.cls);
      return taints.empty() ? taints : "nodes that class " + asked.cls->metadata.name + " does not tolerate: " + taints;
    });
    const auto wait = waiting_.untilNextNode(uid);
    return outcome.kind == Outcome::Kind::done && wait.count() > 0 ? Outcome::after(wait) : outcome;
  }
  waiting_.satisfied(queueKey);
  return intend(claim, *asked.cls, decision, stop);
}

Outcome ClaimSync::intend(const ClaimPtr& claim, const cache::Class& cls, const scheduler::Decision& decision,
                          std::stop_token stop) {
  const auto& uid = claim->metadata.uid;
  auto device = binder_.writeIntent(*claim, cls, decision, stop);  // W1
  if (!device.ok()) {
    if (ApiRejections::isRefusal(device.status())) waiting_.refusedOn(uid, decision.node);  // perhaps only there
    if (device.status().code() != base::Code::invalid) return Outcome::retry(device.status());
    const auto why = "the device was refused: " + device.status().message();  // a policy may change: no event tells
    waiting_.refused(uid, cls.provisioner, why, afterRefusals(waiting_.serverRefused(uid)));
    return refused(*claim, why, stop);
  }
  if (!belongsTo(*device, *claim)) {  // that it goes is no event of this claim's
    const auto said = refuse(*claim, kBound, reason::kProvisionFailed,
                             "an ElasticGPU named " + device->metadata.name + " exists and isn't this claim's", stop);
    return said.kind == Outcome::Kind::done ? Outcome::after(kExplainEvery) : said;
  }
  if (device->metadata.deleting()) return Outcome::done();
  if (device->status.phase == phase::kBound) return Outcome::after(milliseconds(0));
  return intended(claim, std::make_shared<const cache::Gpu>(*device), stop);
}

scheduler::Decision ClaimSync::decide(const cache::Claim& claim, const scheduler::Request& request,
                                      const scheduler::NodePredicate& suits, const std::string& nodes) {
  const auto& uid = claim.metadata.uid;
  cache::ClusterView::Ask ask{uid, core::keyOf(claim.metadata).str(), request, nodes};
  const auto elsewhere = [&](std::string_view node) {
    return !waiting_.wasRefusedOn(uid, node) && (!suits || suits(node));
  };
  if (!waiting_.anyRefusedNode(uid)) return cluster_.decideAndAssume(ask, suits);
  ask.nodes.clear();
  auto decision = cluster_.decideAndAssume(ask, elsewhere);
  if (decision.fits) return decision;
  ask.nodes = nodes;
  waiting_.forgetRefusedNodes(uid);
  return cluster_.decideAndAssume(ask, suits);
}

Outcome ClaimSync::refused(const cache::Claim& claim, const std::string& message, std::stop_token stop) {
  const auto outcome = refuse(claim, kBound, reason::kProvisionFailed, message, stop);
  const auto wait = waiting_.untilRefusalEnds(claim.metadata.uid);
  return outcome.kind == Outcome::Kind::done ? Outcome::after(wait) : outcome;
}

Outcome ClaimSync::noFit(const cache::Claim& claim, const scheduler::Request& request,
                         const scheduler::NodePredicate& suits, const std::string& nodes, std::stop_token stop,
                         const std::function<std::string()>& more) {
  const auto* old = findCondition(claim.status.conditions, kBound);
  const bool told = old != nullptr && old->reason == reason::kNoFit && claim.status.phase == phase::kPending;
  // What would fit changes with every release; it is worth a write now and then, not each time.
  if (!waiting_.mayExplain(claim.metadata.uid, kExplainEvery) && told) return Outcome::after(kExplainEvery);
  if (isStatic(claim)) {
    auto why = cluster_.quarantineReason(claim.spec.elasticGPUName);
    if (const auto card = stores_.cards.get({"", claim.spec.elasticGPUName}))
      if (const auto trouble = cache::troubleOf(*card); trouble && trouble.reason == why) why = trouble.text();
    if (!why.empty())
      return refuse(claim, kBound, reason::kNoFit, "card " + claim.spec.elasticGPUName + " is not offered: " + why,
                    stop);
  }
  auto why = cluster_.explain(request, suits, nodes).text();
  if (auto rejections = waiting_.rejections(claim.metadata.uid); !rejections.empty()) why += "; " + rejections;
  if (auto rest = outOfReach(request); !rest.empty()) why += "; " + rest;
  if (auto rest = more ? more() : std::string(); !rest.empty()) why += "; " + rest;
  return refuse(claim, kBound, reason::kNoFit, why, stop);
}

bool ClaimSync::holds(const cache::Gpu& device, const scheduler::Request& want) const {
  int64_t core = 0, memory = 0, enough = 0;
  for (const auto& share : device.spec.cards) {
    core += share.core;
    memory += share.memory;
    if (!want.wholeCards) {
      enough += share.core >= want.perCard.core && share.memory >= want.perCard.memory ? 1 : 0;
      continue;
    }
    constexpr int64_t kWholeCore = 1000;
    const auto card = stores_.cards.get({"", share.name});
    enough += share.core >= (card ? card->spec.card->core : kWholeCore) &&
                      share.memory >= (card ? card->spec.card->memory : 0)
                  ? 1
                  : 0;
  }
  // Without a number of cards the amounts are totals over the device.
  if (want.cards == 1 && !want.wholeCards) return core >= want.perCard.core && memory >= want.perCard.memory;
  return enough >= want.cards;
}

std::string ClaimSync::outOfReach(const scheduler::Request& request) const {
  const auto wanted = [&](const cache::Gpu& card) {
    const auto& models = request.models;
    return models.empty() || std::find(models.begin(), models.end(), card.spec.card->model) != models.end();
  };
  std::string text;
  std::size_t named = 0;
  for (const auto& card : stores_.cardsInTrouble()) {
    if (!wanted(*card)) continue;
    if (++named > kMostNamed) {
      text += ", …";
      break;
    }
    text += (named == 1 ? "cards that are not offered: " : ", ") + card->metadata.name + " on node " +
            card->spec.card->nodeName + " (" + cache::troubleOf(*card).text().substr(0, kMostSaid) + ")";
  }
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  if (const auto kept = keptDevices(phase::kReleased, wanted); kept.count > 0)
    add(kept.text("kept after their claims (reclaimPolicy Retain): kubectl delete egpu" +
                  (kept.count > kMostNamed ? " --field-selector=status.phase=Released" : kept.names) + " frees " +
                  (kept.count > 1 ? "them" : "it")));
  if (const auto kept = keptDevices(phase::kAvailable, wanted); kept.count > 0)
    add(kept.text("for claims of the same class that name one in spec.elasticGPUName:" + kept.names));
  return text;
}

std::string ClaimSync::Kept::text(const std::string& rest) const {
  return std::to_string(count) + " " + phase + (count > 1 ? " devices hold " : " device holds ") +
         v1alpha::formatMilliCards(held.core) + " and " + v1alpha::formatBytes(held.memory) + ", " + rest;
}

ClaimSync::Kept ClaimSync::keptDevices(std::string_view phase,
                                       const std::function<bool(const cache::Gpu&)>& wanted) const {
  Kept kept;
  kept.phase = phase;
  for (const auto& device : stores_.devicesInPhase(phase)) {
    if (phase == phase::kAvailable && device->spec.claimRef) continue;  // about to be somebody's
    bool counts = false;
    for (const auto& share : device->spec.cards) {
      const auto card = stores_.cards.get({"", share.name});
      if (!card || !wanted(*card)) continue;
      kept.held.core += share.chargedCore;
      kept.held.memory += share.chargedMemory;
      counts = true;
    }
    if (!counts || ++kept.count > kMostNamed + 1) continue;
    kept.names += kept.count > kMostNamed ? " …" : " " + device->metadata.name;
  }
  return kept;
}

std::string ClaimSync::notAvailable(const cache::Claim& claim, const cache::Gpu& device) const {
  const auto name = "device " + device.metadata.name;
  if (const auto& ref = device.spec.claimRef) {
    const core::ObjectKey of{ref->namespace_, ref->name};
    if (ref->reserves() && of != core::keyOf(claim.metadata))
      return name + " is reserved for claim " + of.str() + " by its spec.claimRef; name another device, or none";
    const auto holder = stores_.claims.get(of);
    const bool kept = device.status.phase == phase::kReleased && (!holder || holder->metadata.uid != ref->uid);
    if (kept)
      return name + " is Released: it was kept for claim " + of.str() +
             ", which is gone; clear its spec.claimRef to make it Available";
    if (!ref->reserves()) return name + " belongs to claim " + of.str();
  }
  if (device.metadata.deleting()) return name + " is being deleted";
  if (device.status.phase.empty()) return name + " is not ready";
  if (device.status.phase != phase::kAvailable)
    return name + " is " + device.status.phase + (device.status.message.empty() ? "" : ": " + device.status.message);
  const auto& cls = claim.spec.effectiveClass();
  if (!cls.empty() && cls != device.spec.className)
    return name + " is of class \"" + device.spec.className + "\", the claim of \"" + cls + "\"";
  return {};
}

std::string ClaimSync::againstClass(const cache::Gpu& device, const cache::Class& cls,
                                    const scheduler::Request& want) const {
  const auto name = "device " + device.metadata.name;
  for (const auto& share : device.spec.cards) {
    const auto card = stores_.cards.get({"", share.name});
    if (!card) continue;
    const auto& have = *card->spec.card;
    if (!want.models.empty() && std::find(want.models.begin(), want.models.end(), have.model) == want.models.end())
      return name + " is of a card of model \"" + have.model + "\", which class " + cls.metadata.name +
             " does not give out";
    if (have.memory < want.minMemory)
      return name + " is of a card of " + v1alpha::formatBytes(have.memory) + ", class " + cls.metadata.name +
             " gives out cards of at least " + v1alpha::formatBytes(want.minMemory);
  }
  if (cls.bindingMode == "WaitForFirstConsumer") return {};  // its pods' tolerations count
  const auto taint = untoleratedTaint(stores_, cls, device.spec.nodeName);
  if (!taint.empty())
    return name + " is on node " + device.spec.nodeName + " with taint " + taint + ", which class " +
           cls.metadata.name + " does not tolerate";
  const auto node = stores_.nodes.get({"", device.spec.nodeName});
  return node && node->unschedulable ? name + " is on node " + device.spec.nodeName + ", which is cordoned"
                                     : std::string();
}

Outcome ClaimSync::staticallyBound(const ClaimPtr& claim, const GpuPtr& named, std::stop_token stop) {
  if (const auto why = notAvailable(*claim, *named); !why.empty())
    return refuse(*claim, kBound, reason::kStaticNotAvailable, why, stop);
  // A device without a class was made by hand for whoever names it; any other is its class's to give.
  const auto& className = named->spec.className;
  if (!className.empty() || (!claim->spec.requests.empty() && !named->spec.cards.empty())) {
    auto cls = className.empty() ? classOf(stores_, *claim, nullptr) : stores_.classes.get({"", className});
    if (!cls && !className.empty()) {  // classes and devices come by different watches
      const auto now = writer_.read<cache::Class>({"", className}, {}, stop);
      if (now.ok()) return Outcome::after(milliseconds(0));
      if (now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
      return refuse(*claim, kAccepted, reason::kClassNotFound,
                    "ElasticGPUClass \"" + className + "\" of device " + named->metadata.name +
                        " not found: nothing says who may use it",
                    stop);
    }
    const auto asked = cls ? askOf(*claim, std::move(cls)) : ask(*claim);
    if (asked.later) return Outcome::after(kPluginBusy);
    if (!asked.ok()) return refuse(*claim, asked.type, asked.reason, asked.message, stop);
    if (const auto why = className.empty() ? std::string() : againstClass(*named, *asked.cls, asked.request);
        !why.empty())
      return refuse(*claim, kBound, reason::kStaticNotAvailable, why, stop);
    if (!claim->spec.requests.empty() && !named->spec.cards.empty() && !holds(*named, asked.request))
      return refuse(*claim, kBound, reason::kStaticNotAvailable,
                    "device " + named->metadata.name + " is smaller than requested", stop);
  }
  auto device = binder_.writeClaimRef(*named, *claim, stop);  // W1
  if (!device.ok()) {
    if (device.status().code() == base::Code::conflict)
      return Outcome::after(milliseconds(0));  // somebody was faster: the device was read anew
    return Outcome::retry(device.status());
  }
  return intended(claim, std::make_shared<const cache::Gpu>(*device), stop);
}

Outcome ClaimSync::intended(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
  // A device that stood before its claim is where it is: no consumer chooses its node.
  const bool waits = waitsForConsumer(*claim) && !isStatic(*claim) && device->status.phase != phase::kAvailable;
  if (waits) {
    const auto pods = stores_.podsOfClaim(core::keyOf(claim->metadata));
    if (!reserved(*claim) && std::none_of(pods.begin(), pods.end(), [](const auto& pod) { return alive(*pod); }))
      return giveUp(*claim, *device, {}, stop);  // its consumer left before it was reserved
  }
  const auto entries = binder_.writeEntries(*device, stop);  // W2
  if (!entries.ok()) {
    if (entries.code() != base::Code::invalid) return Outcome::retry(entries);
    // (D1) 422: the decision was stale. Time and again: it isn't that, and deciding at once would go on for ever.
    const int times = waiting_.serverRefused(claim->metadata.uid) - kStaleDecisions;
    if (times > 0)
      waiting_.refused(claim->metadata.uid, device->spec.provisioner, "the ledger refuses: " + entries.message(),
                       afterRefusals(times));
    if (reserved(*claim)) return stuck(*claim, entries.message(), stop);
    return giveUp(*claim, *device, {}, stop);
  }
  if (waits) return waitForReservation(claim, device, stop);
  return provision(claim, device, stop);
}

Outcome ClaimSync::provision(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
  if (auto refusal = waiting_.refusal(claim->metadata.uid); !refusal.empty())
    return reserved(*claim) ? refused(*claim, refusal, stop) : giveUp(*claim, *device, {}, stop);
  const auto reply = provisioning_.provision(*device);  // W3
  if (!reply) return Outcome::after(provisioning_.delay(*device));
  if (!reply->ok()) return notProvisioned(*claim, *device, *reply, stop);
  auto now = binder_.commitDevice(*device, stop);  // W4
  if (!now.ok()) {
    // 409, 404: read anew by now. Bound → we go on. Rolled back meanwhile → its undo may have been before our effect:
    // undo that too.
    auto current = stores_.devices.get({"", device->metadata.name});
    const bool gone = !current || current->metadata.uid != device->metadata.uid;
    if (gone || (current->metadata.deleting() && !committed(*current))) {
      const auto undone = provisioning_.deprovision(*device);
      if (!undone || !undone->ok()) enqueue_(pluginKey(device->spec.provisioner));  // (S2)
    }
    if (now.status().code() == base::Code::conflict) return Outcome::after(milliseconds(0));
    return now.status().code() == base::Code::notFound ? Outcome::after(milliseconds(0)) : Outcome::retry(now.status());
  }
  return committing(claim, std::make_shared<const cache::Gpu>(*now), stop);
}

Outcome ClaimSync::notProvisioned(const cache::Claim& claim, const cache::Gpu& device, const plugin::Reply& reply,
                                  std::stop_token stop) {
  const auto& uid = claim.metadata.uid;
  const auto text = device.spec.provisioner + ": " + std::string(plugin::toString(reply.outcome)) +
                    (reply.message.empty() ? "" : ": " + reply.message);
  const auto say = [&](std::string_view why) { return status_.pending(claim, kBound, why, text, stop); };
  switch (reply.outcome) {
    case plugin::ReplyCode::ok:
    case plugin::ReplyCode::noChange:
      break;
    case plugin::ReplyCode::inProgress: {
      const auto said = say(reason::kProvisioning);
      return said.ok() ? Outcome::after(kPollBackground) : Outcome::ofWrite(said);
    }
    case plugin::ReplyCode::reschedule: {
      const bool fixed = reserved(claim) || device.status.phase == phase::kAvailable;  // can't be decided anew
      return fixed ? stuck(claim, text, stop) : giveUp(claim, device, text, stop);
    }
    case plugin::ReplyCode::exists:  // not this device, by the plugin's account
    case plugin::ReplyCode::invalid: {
      waiting_.refused(uid, device.spec.provisioner, text, kRefusedFor);
      const auto said = say(reason::kProvisionFailed);
      if (!said.ok()) return Outcome::ofWrite(said);
      return reserved(claim) ? Outcome::after(kRefusedFor) : giveUp(claim, device, {}, stop);
    }
    case plugin::ReplyCode::internal: {
      const auto said = say(reason::kProvisionFailed);
      return Outcome::retry(said.ok() ? base::Status(base::Code::internal, text) : said);
    }
    case plugin::ReplyCode::unavailable:
    case plugin::ReplyCode::timeout:
    case plugin::ReplyCode::crashed:
    case plugin::ReplyCode::garbage: {
      const auto said = say(reason::kProvisionerUnavailable);
      return Outcome::retry(said.ok() ? base::Status(base::Code::unavailable, text) : said);
    }
  }
  return Outcome::done();
}

Outcome ClaimSync::committing(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
  if (auto gone = hardwareGone(*device); !gone.empty()) return lost(claim, device, gone, stop);
  if (device->status.reason == reason::kCardGone) {
    // The hardware is back. First the device, so that a stale controller's Failed meets another resourceVersion.
    auto cleared = binder_.setPhase(*device, phase::kBound, "", "", stop);
    return cleared.ok() || cleared.status().code() == base::Code::conflict ? Outcome::after(milliseconds(0))
                                                                           : Outcome::ofWrite(cleared.status());
  }
  auto now = binder_.commitClaim(*claim, *device, stop);  // W5
  if (!now.ok()) {
    const auto code = now.status().code();
    if (code == base::Code::conflict) return Outcome::after(milliseconds(0));
    return Outcome::ofWrite(now.status());  // gone: the device's step releases it
  }
  waiting_.forgetClaim(claim->metadata.uid);
  auto status = status_.bound(*now, *device, stop);  // W6
  if (!status.ok())
    return status.code() == base::Code::conflict ? Outcome::after(milliseconds(0)) : Outcome::ofWrite(status);
  boundAt_ = clock_.now();
  return bound(*now, *device, stop);
}

Outcome ClaimSync::bound(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  auto current = stores_.claims.get(core::keyOf(claim.metadata));
  if (!current || current->metadata.uid != claim.metadata.uid) return Outcome::done();
  const auto answer = carrier_.ensure(*current, device, true, stop);  // W7, W8
  if (answer.state == Carrier::State::failed) return Outcome::ofWrite(answer.error);
  const auto* carried = findCondition(current->status.conditions, kCarried);
  if (carried != nullptr && carried->status != "True") {
    // Whom it was said for is gone.
    const auto pods = stores_.podsOfClaim(core::keyOf(claim.metadata));
    const bool carriedNow = answer.state == Carrier::State::allocated || answer.state == Carrier::State::reserved;
    const bool outdated =
        carried->reason == reason::kNodeUnsuitable
            ? std::none_of(pods.begin(), pods.end(), [](const auto& pod) { return alive(*pod) && gated(*pod); })
            : answer.state == Carrier::State::unwanted || (carried->reason == reason::kRefused && carriedNow);
    if (outdated) {
      const auto status = status_.carried(*current, {}, {}, stop);
      if (!status.ok()) return Outcome::ofWrite(status);
    }
  }
  return answer.state == Carrier::State::waiting ? Outcome::after(answer.delay) : Outcome::done();
}

std::string ClaimSync::hardwareGone(const cache::Gpu& device) const {
  for (const auto& share : device.spec.cards) {
    auto card = stores_.cards.get({"", share.name});
    if (!card) return "card " + share.name + " is gone";
    if (card->metadata.deleting()) return "card " + share.name + " is being removed";
    if (card->status.phase == phase::kFailed)
      return "card " + share.name + " failed" + (card->status.message.empty() ? "" : ": " + card->status.message);
    if (!device.spec.nodeName.empty() && card->spec.card->nodeName != device.spec.nodeName)
      return "card " + share.name + " is on node " + card->spec.card->nodeName + " now";
  }
  return {};
}

Outcome ClaimSync::lost(const ClaimPtr& claim, const GpuPtr& device, const std::string& message, std::stop_token stop) {
  if (device && device->status.phase == phase::kBound && device->status.reason != reason::kCardGone) {
    // Marked before the claim is Lost: what may follow, Failed, needs exactly this version of the device.
    auto marked = binder_.setPhase(*device, phase::kBound, reason::kCardGone, message, stop);
    return marked.ok() || marked.status().code() == base::Code::conflict ? Outcome::after(milliseconds(0))
                                                                         : Outcome::ofWrite(marked.status());
  }
  auto status = status_.lost(*claim, message, stop);
  if (!status.ok())
    return status.code() == base::Code::conflict ? Outcome::after(milliseconds(0)) : Outcome::ofWrite(status);
  if (isStatic(*claim) && device && device->metadata.name == claim->spec.elasticGPUName) return Outcome::done();
  if (inUse(*claim)) return Outcome::done();  // a pod's end is an event
  // Nobody uses it: it may be bound anew, on hardware that is there.
  const auto carrier = carrier_.release(core::keyOf(claim->metadata), claim->metadata.uid,
                                        device ? device->metadata.name : claim->status.elasticGPUName, stop);
  if (carrier.state == Carrier::Release::failed) return Outcome::retry(carrier.error);
  if (carrier.state == Carrier::Release::inUse) return Outcome::done();
  if (!device) return Outcome::done();
  const auto used = inUse(*claim, *device, stop);
  if (!used.ok()) return Outcome::retry(used.status());
  if (*used) return Outcome::done();
  if (device->status.phase ==
      phase::kBound) {  // what follows can't be taken back: look again, at the server's own state
    for (const auto& share : device->spec.cards) {
      auto known = stores_.cards.get({"", share.name});
      auto now = writer_.read<cache::Gpu>({"", share.name}, known ? known->metadata.uid : std::string(), stop);
      if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
    }
    if (hardwareGone(*device).empty()) return Outcome::after(milliseconds(0));
  }
  auto failed = binder_.setPhase(*device, phase::kFailed, reason::kCardGone, message, stop);
  if (!failed.ok())
    return failed.status().code() == base::Code::conflict ? Outcome::after(milliseconds(0))
                                                          : Outcome::ofWrite(failed.status());
  if (failed->metadata.deleting()) return Outcome::done();
  status = writer_.remove(*failed, stop);
  return status.ok() ? Outcome::done() : Outcome::retry(status);
}

Outcome ClaimSync::stillUsed(const cache::Claim& claim, const GpuPtr& device, Carrier::Release carrier,
                             std::stop_token stop) {
  const auto who = users(claim);  // the end of its pods is an event
  if (device && device->status.phase == phase::kBound && carrier == Carrier::Release::gone) {
    // OBSERVATION: pods run, and the ResourceClaim that they came by is no more. Somebody tore it out.
    const auto held = users_.hold(*device, reason::kCarrierGone, who, stop);
    if (!held.ok())
      return held.code() == base::Code::conflict ? Outcome::after(milliseconds(0)) : Outcome::ofWrite(held);
  }
  return Outcome::ofWrite(status_.inUse(claim, "is being deleted; waits for " + who, stop));
}

Outcome ClaimSync::releasing(const ClaimPtr& claim, std::stop_token stop) {
  waiting_.satisfied(claimKey(core::keyOf(claim->metadata)));
  auto device = deviceOf(*claim);
  const auto name = device                                 ? device->metadata.name
                    : claim->status.elasticGPUName.empty() ? deviceNameFor(*claim)
                                                           : claim->status.elasticGPUName;
  const auto carrier = carrier_.release(core::keyOf(claim->metadata), claim->metadata.uid, name, stop);
  if (carrier.state == Carrier::Release::failed) return Outcome::retry(carrier.error);
  bool used = carrier.state == Carrier::Release::inUse || inUse(*claim);
  if (!used && device && device->status.phase != phase::kReleased) {
    const auto seen = inUse(*claim, *device, stop);
    if (!seen.ok()) return Outcome::retry(seen.status());
    used = *seen;
  }
  if (used) return stillUsed(*claim, device, carrier.state, stop);
  if (!device) {
    // The cache may not know it yet.
    auto now = writer_.read<cache::Gpu>({"", name}, {}, stop);
    if (now.ok() && belongsTo(*now, *claim)) return Outcome::after(milliseconds(0));
    if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
  } else if (!(device->status.phase == phase::kReleased && device->spec.reclaimPolicy != "Delete" &&
               !device->metadata.deleting())) {
    const auto& phase = device->status.phase;
    if (phase == phase::kBound) {
      auto released = binder_.setPhase(*device, phase::kReleased, "", "", stop);
      if (!released.ok())
        return released.status().code() == base::Code::conflict ? Outcome::after(milliseconds(0))
                                                                : Outcome::ofWrite(released.status());
      return Outcome::after(milliseconds(0));
    }
    if (device->metadata.deleting()) return Outcome::done();  // its last event brings us here again
    if (phase == phase::kAvailable) {                         // chosen by name, never committed: given back
      const auto body = codec::patch::claimRef(device->metadata.uid, device->metadata.resourceVersion, std::nullopt);
      auto cleared = writer_.patch(*device, body, {}, stop);
      return cleared.ok() ? Outcome::after(milliseconds(0)) : Outcome::ofWrite(cleared.status());
    }
    const auto status = binder_.rollBack(*device, stop);  // intent, Failed, or Released and Delete
    return status.ok() ? Outcome::after(milliseconds(0)) : Outcome::retry(status);
  }
  if (!claim->metadata.hasFinalizer(keys::kClaimFinalizer)) return Outcome::done();
  waiting_.forgetClaim(claim->metadata.uid);
  cluster_.forget(claim->metadata.uid);
  auto rest = claim->metadata.finalizers;
  rest.erase(std::remove(rest.begin(), rest.end(), keys::kClaimFinalizer), rest.end());
  const auto body = codec::patch::finalizers(claim->metadata.uid, claim->metadata.resourceVersion, rest);
  return Outcome::ofWrite(writer_.patch(*claim, body, {}, stop).status());
}

}  // namespace egpu::reconcile
