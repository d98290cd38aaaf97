#include "controller/reconcile/pod/pod.h"

#include <algorithm>
#include <set>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_amounts.h"
#include "controller/reconcile/api_rejections.h"
#include "controller/reconcile/claim/stock.h"
#include "controller/reconcile/pod/node_fit/resources.h"
#include "controller/reconcile/queue_key.h"
#include "controller/reconcile/template/amounts.h"
#include "controller/scheduler/first_available.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {
constexpr milliseconds kNodeRefusedFor{120'000};  ///< a node on which the API server refused the device
constexpr std::size_t kLooksUnderLock = 256;      ///< at nodes, while nobody else can decide
}  // namespace

Outcome PodSync::step(const core::ObjectKey& key, std::stop_token stop) {
  auto pod = stores_.pods.get(key);
  if (!pod || !alive(*pod) || pod->metadata.deleting()) {
    stores_.usage.unplan(key);
    const std::lock_guard lock(mutex_);
    told_.erase(key);
    short_.erase(key);
    return Outcome::done();
  }
  if (const auto node = waiting_.chosen.nodeOf(*pod); pod->nodeName.empty() && !node.empty()) {
    core::Pod there = *pod;  // a scheduler is binding it: decided as for one that sits there
    there.nodeName = node;
    pod = std::make_shared<const core::Pod>(std::move(there));
  }
  const auto claims = claimsOf(*pod, stop);
  if (!claims || claims->empty()) {
    stores_.usage.unplan(key);
    return Outcome::done();
  }
  const auto& used = *claims;
  auto outcome = decideFor(*pod, used, stop);
  for (const auto& one : used) claims_.forgetIfGone(core::keyOf(one.claim->metadata), one.claim->metadata.uid);
  return outcome;
}

Outcome PodSync::decideFor(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop) {
  const auto key = core::keyOf(pod.metadata);
  const bool open = std::any_of(used.begin(), used.end(), [](const auto& one) { return !one.device; });
  const bool promised = std::any_of(used.begin(), used.end(), [this](const auto& one) {
    return !one.device && cluster_.decidedInGang(one.claim->metadata.uid);
  });
  if (open) {
    if (!promised) stores_.usage.unplan(key);  // until it is promised a node anew
  } else {
    notShort(key);
    plan(pod, used);
  }
  if (pod.nodeName.empty() && waiting_.chosen.leavesToScheduler(pod)) return leaveToScheduler(pod, used, stop);
  if (const auto gathered = gather(pod, used, stop)) return *gathered;
  if (!open && !gated(pod)) return Outcome::done();
  auto outcome = open ? choose(pod, used, stop) : letGo(pod, used, stop);
  tellConditions(pod, used, outcome.said);
  return outcome;
}

bool PodSync::leftAltogether(const cache::Claim& claim) const {
  const auto pods = stores_.podsOfClaim(core::keyOf(claim.metadata));
  return std::all_of(pods.begin(), pods.end(), [this](const auto& pod) {
    return !alive(*pod) || (pod->nodeName.empty() && waiting_.chosen.leavesToScheduler(*pod));
  });
}

Outcome PodSync::leaveToScheduler(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop) {
  std::vector<const Used*> idle;
  for (const auto& one : used)
    if (movable(pod, one)) idle.push_back(&one);
  if (!idle.empty()) return regroup(idle, "no binding of pod " + pod.metadata.name + " is under way", stop);
  const bool open = std::any_of(used.begin(), used.end(), [](const auto& one) { return !one.device; });
  if (!open) return gated(pod) ? letGo(pod, used, stop) : Outcome::done();
  auto outcome = Outcome::done();
  const auto choice = choiceOf(pod, used, &outcome);
  if (choice && gated(pod))
    if (const auto failed = removeGate(pod, codec::patch::liftGate(pod, keys::kSchedulingGate), stop)) return *failed;
  if (choice)
    for (const auto* one : choice->open)
      if (leftAltogether(*one->claim))
        outcome.said.push_back(
            notBound(*one->claim, reason::kWaitingForConsumer, "the scheduler of its pods chooses the node"));
  tellConditions(pod, used, outcome.said);
  return outcome;
}

void PodSync::notShort(const core::ObjectKey& pod) {
  const std::lock_guard lock(mutex_);
  short_.erase(pod);
}

std::size_t PodSync::remembered() const {
  const std::lock_guard lock(mutex_);
  return told_.size() + short_.size();
}

std::optional<std::vector<PodSync::Used>> PodSync::claimsOf(const core::Pod& pod, std::stop_token stop) {
  const auto key = core::keyOf(pod.metadata);
  std::set<std::string> annotated;
  for (auto it = pod.metadata.annotations.lower_bound(keys::kClaimAnnotationPrefix);
       it != pod.metadata.annotations.end() && it->first.rfind(keys::kClaimAnnotationPrefix, 0) == 0; ++it)
    annotated.insert(it->second);
  std::vector<Used> used;
  if (const auto* waits = pod.unstamped()) {
    tellUnstamped(pod, waits->templateName, stop);
    return std::nullopt;  // that it has its ResourceClaim is an event of the pod
  }
  std::set<std::string> names;
  for (const auto& entry : pod.resourceClaims) {
    if (entry.resourceClaimName.empty() || !names.insert(entry.resourceClaimName).second) continue;
    const core::ObjectKey claimKeyOf{key.namespace_, entry.resourceClaimName};
    auto claim = stores_.claims.get(claimKeyOf);
    if (!claim && gated(pod)) {  // pods and claims come by different watches
      const auto now = writer_.read<cache::Claim>(claimKeyOf, {}, stop);
      if (now.ok()) claim = stores_.claims.get(claimKeyOf);
    }
    const auto carrier = stores_.carriers.get(claimKeyOf);
    if (!claim) {
      if (carrier && Carrier::isOthers(*carrier) && annotated.count(entry.resourceClaimName) == 0)
        continue;  // another driver's: not ours to wait for
      tellMissing(pod, entry, carrier.get());
      return std::nullopt;  // the claim's creation is an event
    }
    if (carrier && asks(*carrier) && madeFor(*claim) != carrier->metadata.uid) {
      if (madeFor(*claim).empty())
        tell(pod, entry.resourceClaimName, reason::kCarrierTaken,
             "an ElasticGPUClaim of that name exists and was not made for the pod's ResourceClaim: give one of them "
             "another name");
      return std::nullopt;  // its end is an event
    }
    if (claim->metadata.deleting()) {
      tell(pod, entry.resourceClaimName, "Deleting", "it is being deleted");
      return std::nullopt;
    }
    used.push_back({claim, claims_.deviceOf(*claim)});
  }
  return used;
}

void PodSync::tellUnstamped(const core::Pod& pod, const std::string& name, std::stop_token stop) {
  const core::ObjectKey key{pod.metadata.namespace_, name};
  if (!gated(pod)) return;  // it may be another driver's
  if (const auto claims = stores_.templates.get(key)) {
    const auto* ready = findCondition(claims->conditions, kReady);
    if (ready != nullptr && ready->status == "False")
      tellOf(pod, "template " + name, ready->reason, ready->reason + ": " + ready->message);
    return;
  }
  if (v1alpha::namesAmounts(name)) {  // it is made for the pod
    if (const auto why = amountsRefusal(stores_, pod, name)) tellOf(pod, "amounts", reason::kInvalidParameter, *why);
    return;
  }
  if (stores_.carrierTemplates.get(key)) return;  // Kubernetes stamps it soon
  if (writer_.read<core::ResourceClaimTemplate>(key, {}, stop).status().code() != base::Code::notFound) return;
  tellOf(pod, "template " + name, "NotFound",
         "there is no ElasticGPUClaimTemplate or ResourceClaimTemplate of that name");
}

void PodSync::tellMissing(const core::Pod& pod, const core::PodResourceClaim& entry,
                          const core::ResourceClaim* carrier) {
  const auto& claim = entry.resourceClaimName;
  const bool stamped = std::any_of(pod.resourceClaims.begin(), pod.resourceClaims.end(), [&](const auto& other) {
    return other.name == entry.name && !other.templateName.empty();
  });
  if (carrier == nullptr && stamped) return;  // it comes by another watch
  if (carrier == nullptr || (carrier->deviceClassName != keys::kDeviceClass && !asks(*carrier)))
    return tell(pod, claim, "NotFound", "there is no such ElasticGPUClaim");
  const auto wanted = asks(*carrier) ? claimFor(*carrier)
                                     : std::string(
                                           "spec.devices.config: must say what is wanted, as {opaque: {driver: "
                                           "elasticgpu.io, parameters: {egpuClassName: …, resources: …}}}");
  if (const auto* why = std::get_if<std::string>(&wanted))
    tell(pod, claim, reason::kInvalidParameter, "its ResourceClaim can't be served: " + *why);
}

void PodSync::plan(const core::Pod& pod, const std::vector<Used>& used) {
  if (!pod.nodeName.empty()) return;  // it counts there by itself
  const auto& node = used.front().device->spec.nodeName;
  bool counts = std::all_of(used.begin(), used.end(), [&](const auto& one) {
    return one.device->spec.nodeName == node && !one.device->metadata.deleting();
  });
  // A pod that can't be placed there holds up no other, unless the scheduler makes room for it there.
  const auto* scheduled = findCondition(pod.conditions, "PodScheduled");
  if (scheduled != nullptr && scheduled->reason == "Unschedulable" && pod.nominatedNodeName != node) counts = false;
  const auto key = core::keyOf(pod.metadata);
  const auto object = counts ? stores_.nodes.get({"", node}) : nullptr;
  if (object && shortOf(cache::requestsOf(pod), stores_.usage.of(node, key), *object).empty())
    stores_.usage.plan(pod, node);
  else
    stores_.usage.unplan(key);
}

void PodSync::freed(const std::string& node) {
  std::vector<std::pair<core::ObjectKey, Short>> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (short_.empty()) return;
    waiting.assign(short_.begin(), short_.end());
  }
  const auto object = stores_.nodes.get({"", node});
  if (!object) return;
  std::sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) { return a.second.age < b.second.age; });
  for (const auto& [pod, is] : waiting)
    if (shortOf(is.requests, stores_.usage.of(node, pod), *object).empty()) enqueue_(podKey(pod));
}

namespace {
/// What Bound says of a claim that has a device is mostly of before it had one. Not that: what became of the device.
bool isOfDevice(const cache::Claim& claim, const core::Condition& bound) {
  return claim.status.phase == phase::kLost || bound.reason == reason::kProvisionFailed ||
         bound.reason == reason::kProvisionerUnavailable;
}
}  // namespace

void PodSync::tell(const core::Pod& pod, const std::string& claim, std::string_view why, const std::string& message) {
  tellOf(pod, "claim " + claim, why, message + askedByAnnotations(pod, claim));
}

void PodSync::tellOf(const core::Pod& pod, const std::string& of, std::string_view why, const std::string& message) {
  if (!pod.nodeName.empty()) return;
  {
    const std::string what = pod.metadata.uid + " " + of + " " + std::string(why);
    const std::lock_guard lock(mutex_);
    auto& last = told_[core::keyOf(pod.metadata)];
    if (last == what) return;
    last = what;
  }
  events_.event(kube::referenceTo(pod), "Warning", "WaitingForClaim", of + ": " + message);
}

void PodSync::tellConditions(const core::Pod& pod, const std::vector<Used>& used, const std::vector<Said>& news) {
  const auto now = stores_.pods.get(core::keyOf(pod.metadata));
  if (!now || !now->nodeName.empty()) return;
  for (const auto& one : used) {
    const auto& name = one.claim->metadata.name;
    for (const auto& said : news)
      if (said.uid == one.claim->metadata.uid && (said.as == Said::As::notBound || said.as == Said::As::notCarried))
        return tell(pod, name, said.reason, said.reason + ": " + said.message);
    const auto claim = stores_.claims.get(core::keyOf(one.claim->metadata));
    if (!claim) continue;
    const bool decided = claims_.deviceOf(*claim) != nullptr;
    for (const auto type : {kBound, kCarried}) {
      const auto* condition = findCondition(claim->status.conditions, type);
      if (condition == nullptr || condition->status != "False" || condition->message.empty()) continue;
      if (type == kBound && decided && !isOfDevice(*claim, *condition)) continue;
      if (condition->reason == reason::kWaitingForConsumer || condition->reason == reason::kProvisioning) continue;
      return tell(pod, name, condition->reason, condition->reason + ": " + condition->message);
    }
  }
}

std::optional<PodSync::Choice> PodSync::choiceOf(const core::Pod& pod, const std::vector<Used>& used,
                                                 Outcome* outcome) {
  Choice choice;
  choice.node = pod.nodeName;
  for (const auto& one : used) {
    if (one.device) {
      const auto& device = *one.device;
      if (device.metadata.deleting()) return std::nullopt;  // on its way out; its last event brings us here again
      if (!choice.node.empty() && device.spec.nodeName != choice.node)
        return std::nullopt;  // the pod was put elsewhere
      choice.node = device.spec.nodeName;
      choice.fixedBy = one.claim->metadata.name;
      continue;
    }
    if (claims_.takesDevice(*one.claim)) return std::nullopt;  // the claim's step takes it
    const auto& uid = one.claim->metadata.uid;
    auto ask = claims_.ask(*one.claim);
    if (ask.later) {
      *outcome = Outcome::after(milliseconds(50));
      return std::nullopt;
    }
    if (!ask.ok()) return std::nullopt;  // the claim's step says so
    if (ask.cls->bindingMode != "WaitForFirstConsumer" || claims_.inGang(*one.claim))
      return std::nullopt;  // bound without us, then we come again
    if (!waiting_.provisioners.refusal(uid).empty()) return std::nullopt;
    choice.wait = std::max(choice.wait, waiting_.nodes.untilNextChoice(uid));
    choice.asks.push_back(ask.of(*one.claim));
    choice.asked.push_back(std::move(ask));
    choice.open.push_back(&one);
  }
  if (!choice.node.empty())  // so that it is looked up and not looked for
    for (auto& ask : choice.asks) ask.request.pinnedNode = choice.node;
  return choice;
}

Outcome PodSync::choose(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop) {
  notShort(core::keyOf(pod.metadata));
  auto outcome = Outcome::done();
  if (gated(pod))
    if (const auto apart = areApart(pod, used)) return *apart;
  const auto choice = choiceOf(pod, used, &outcome);
  if (!choice) return outcome;
  const bool chosen = !waiting_.chosen.nodeOf(pod).empty();  // then the scheduler's own back-off is enough
  if (choice->wait.count() > 0 && !chosen) return Outcome::after(choice->wait);
  auto volumes = volumes_.of(pod, stop);
  if (!volumes.ok()) return Outcome::retry(volumes.status());
  NodeChoice nodes(stores_, pod, std::move(*volumes), choice->node, [&](std::string_view name) {
    return std::any_of(choice->asks.begin(), choice->asks.end(), [&](const auto& ask) {
      return waiting_.nodes.rejected(ask.claimUid, name) || waiting_.nodes.wasRefusedOn(ask.claimUid, name);
    });
  });
  waitForRoom(pod, *choice);  // before looking: what is given back from now on brings us here again
  auto together = decideFirst(*choice, nodes);
  if (together.decisions.empty() && forgetRefusedNodes(choice->asks)) together = decideFirst(*choice, nodes);
  if (together.decisions.empty()) return toldToBinder(pod, noRoom(pod, used, *choice, together, nodes, stop));
  notShort(core::keyOf(pod.metadata));
  if (!nodes.promise(together.decisions.front().node)) {  // another pod was promised it meanwhile
    for (const auto& ask : choice->asks) cluster_.forget(ask.claimUid);
    return Outcome::again();
  }
  waiting_.remove(podKey(core::keyOf(pod.metadata)));
  return writeIntents(pod, *choice, together.decisions, stop);
}

Outcome PodSync::toldToBinder(const core::Pod& pod, Outcome outcome) {
  if (const auto node = waiting_.chosen.nodeOf(pod); !node.empty())
    waiting_.chosen.refuse(core::keyOf(pod.metadata),
                           "no room for the pod's claims on node " + node +
                               (outcome.said.empty() ? "" : ": " + outcome.said.front().message));
  return outcome;
}

void PodSync::waitForRoom(const core::Pod& pod, const Choice& choice) {
  const auto key = core::keyOf(pod.metadata);
  waiting_.room.add(podKey(key), ageOf(pod.metadata), choice.asks.empty() ? 0 : choice.asks.front().turn.priority);
  waiting_.quota.add(key.namespace_, podKey(key), ageOf(pod.metadata));
  const std::lock_guard lock(mutex_);
  short_[key] = {ageOf(pod.metadata), cache::requestsOf(pod)};
}

Outcome PodSync::overQuota(const core::Pod& pod, const Choice& choice, const scheduler::QuotaExcess& excess) {
  if (!excess.elsewhere) waiting_.room.remove(podKey(core::keyOf(pod.metadata)));  // no room would help
  auto all = Outcome::done();
  for (const auto* one : choice.open) {
    auto outcome = claims_.overQuota(*one->claim, excess);
    std::swap(all.said, outcome.said);
    all = std::move(outcome).says(std::move(all.said));
  }
  return all;
}

Outcome PodSync::noRoom(const core::Pod& pod, const std::vector<Used>& used, const Choice& choice,
                        const scheduler::Together& together, NodeChoice& nodes, std::stop_token stop) {
  bool anyShort = nodes.anyShort();
  const auto started = startOver(pod, used, choice, &anyShort, stop);
  if (!anyShort) notShort(core::keyOf(pod.metadata));
  if (started) return *started;
  if (together.excess) return overQuota(pod, choice, *together.excess);
  if (auto making = makeRoom(pod, choice, nodes, stop)) return *std::move(making);
  return noFit(pod, used, choice, together.alone, nodes);
}

std::optional<Outcome> PodSync::makeRoom(const core::Pod& pod, const Choice& choice, NodeChoice& nodes,
                                         std::stop_token stop) {
  const scheduler::NodePredicate suits = [&nodes](std::string_view name) { return nodes.suits(name); };
  const auto& open = choice.open;
  if (open.size() == 1) return claims_.makeRoom(*open.front()->claim, choice.asked.front(), suits, stop);
  AskedTogether all;
  for (std::size_t i = 0; i < open.size(); ++i) {
    const auto& claim = open[i]->claim;
    if (!choice.asked[i].preempts || claims_.preemptsWith(claim).size() != open.size()) return std::nullopt;
    all.claims.push_back(claim);
    all.places.push_back({suits, {}, i == 0 ? std::nullopt : std::optional<std::size_t>(0)});
  }
  all.asks = choice.asks;
  return claims_.makeRoomForAll("pod " + pod.metadata.name, std::move(all), stop);
}

bool PodSync::forgetRefusedNodes(const std::vector<cache::ClusterView::Ask>& asks) {
  bool any = false;
  for (const auto& ask : asks) {
    any = any || waiting_.nodes.anyRefused(ask.claimUid);
    waiting_.nodes.forgetRefused(ask.claimUid);
  }
  return any;
}

Outcome PodSync::noFit(const core::Pod& pod, const std::vector<Used>& used, const Choice& choice,
                       const std::vector<bool>& alone, NodeChoice& nodes) {
  const auto& open = choice.open;
  // If each fits by itself, none of them is to blame.
  const bool each = std::find(alone.begin(), alone.end(), false) == alone.end();
  const auto more = [&] {
    auto text = whyNotTogether(pod, choice, each, nodes);
    if (open.size() > 1 && claims_.preemptsInVain(*open.front()->claim))
      text += (text.empty() ? "" : "; ") + ("nobody has to go for pod " + pod.metadata.name) +
              ": all claims of lower priority that may would not make room for all of its claims";
    return text;
  };
  const auto suits = [&](std::string_view name) { return nodes.suits(name); };
  milliseconds wait{0};
  const auto within = [&wait](milliseconds time) {
    if (time.count() > 0) wait = wait.count() > 0 ? std::min(wait, time) : time;
  };
  std::vector<Said> said;
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (!each && alone[i] && !open[i]->claim->status.nominated) continue;
    if (olderSays(pod, *open[i]->claim)) continue;
    const auto outcome = claims_.noFit(*open[i]->claim, choice.asked[i], suits, {}, more);
    said.insert(said.end(), outcome.said.begin(), outcome.said.end());
    within(outcome.delay);
  }
  // A node that was refused for a while may serve again without any event.
  for (const auto& one : used) within(waiting_.nodes.untilNextNode(one.claim->metadata.uid));
  return (wait.count() > 0 ? Outcome::after(wait) : Outcome::done()).says(std::move(said));
}

std::string PodSync::whyNotTogether(const core::Pod& pod, const Choice& choice, bool each, NodeChoice& nodes) {
  std::string text;
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  if (each && choice.open.size() > 1) {
    std::string names;
    for (const auto* one : choice.open) names += (names.empty() ? "" : ", ") + one->claim->metadata.name;
    add("each of the claims " + names + " of pod " + pod.metadata.name +
        " fits by itself, but no node has room for all of them");
  }
  if (!choice.fixedBy.empty())
    add("claim " + choice.fixedBy + " of pod " + pod.metadata.name + " is on node " + choice.node);
  if (const auto why = nodes.text(); !why.empty()) add("nodes that don't suit pod " + pod.metadata.name + ": " + why);
  return text;
}

bool PodSync::olderSays(const core::Pod& pod, const cache::Claim& claim) const {
  const auto* bound = findCondition(claim.status.conditions, kBound);
  if (bound == nullptr || bound->reason != reason::kNoFit) return false;
  const auto rank = [](const core::Pod& of) { return std::pair(ageOf(of.metadata), of.metadata.name); };
  for (const auto& other : stores_.podsOfClaim(core::keyOf(claim.metadata)))
    if (alive(*other) && gated(*other) && rank(*other) < rank(pod)) return true;
  return false;
}

Outcome PodSync::writeIntents(const core::Pod& pod, const Choice& choice,
                              const std::vector<scheduler::Decision>& decisions, std::stop_token stop) {
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const auto& claim = *choice.open[i]->claim;
    const auto device =
        binder_.writeIntent(claim, *choice.asked[i].cls, decisions[i], stop);  // the claim's step goes on
    const bool ours = device.ok() && belongsTo(*device, claim) && !device->metadata.deleting();
    if (ours && device->spec.nodeName == decisions[i].node) continue;
    // What is left is not written for a node where the pod's other claims are not.
    for (std::size_t rest = i + 1; rest < decisions.size(); ++rest) cluster_.forget(choice.asks[rest].claimUid);
    if (device.status().code() == base::Code::invalid)  // perhaps only on that node
      waiting_.nodes.reject(claim.metadata.uid, decisions[i].node, "the device was refused", kNodeRefusedFor);
    else if (ApiRejections::isRefusal(device.status()))  // a quota, rights: others are tried first
      waiting_.nodes.refusedOn(claim.metadata.uid, decisions[i].node);
    if (!device.ok()) return Outcome::retry(device.status());
    stores_.usage.unplan(core::keyOf(pod.metadata));
    if (ours) return Outcome::again();                      // another pod was faster: the rest follows it, or all move
    if (belongsTo(*device, claim)) return Outcome::done();  // rolled back; its last event brings us here again
    const auto why = "an ElasticGPU named " + device->metadata.name + " exists and isn't this claim's";
    return Outcome::retry({base::Code::alreadyExists, why}).says(notBound(claim, reason::kProvisionFailed, why));
  }
  return Outcome::done();
}

scheduler::Together PodSync::decideFirst(const Choice& choice, NodeChoice& nodes) {
  auto together = decide(choice.asks, nodes);
  std::vector<std::size_t> counts;
  for (const auto& asked : choice.asked) counts.push_back(asked.alternatives());
  scheduler::Combinations combinations(std::move(counts));
  const bool several = combinations.size() > 1;
  auto tried = together;
  while (several && together.decisions.empty()) {
    for (std::size_t i = 0; i < tried.alone.size(); ++i)
      if (!tried.excess && !tried.alone[i]) combinations.ruleOut(i, combinations.at()[i]);
    if (!combinations.next()) break;
    tried = decide(asksOf(choice, combinations.at()), nodes);
    together.decisions = tried.decisions;
    if (!tried.excess) together.excess.reset();
    for (std::size_t i = 0; i < tried.alone.size(); ++i) together.alone[i] = together.alone[i] || tried.alone[i];
  }
  for (std::size_t i = 0; i < together.decisions.size(); ++i) together.decisions[i].alternative = combinations.at()[i];
  if (const auto byEviction = together.decisions.empty() ? nodes.byEviction() : nullptr) {
    auto evicting = cluster_.decideTogether(choice.asks, byEviction);
    together.decisions = std::move(evicting.decisions);
    if (!together.excess && !several) together.excess = std::move(evicting.excess);
  }
  return together;
}

std::vector<cache::ClusterView::Ask> PodSync::asksOf(const Choice& choice, const std::vector<std::size_t>& which) {
  std::vector<cache::ClusterView::Ask> asks;
  for (std::size_t i = 0; i < which.size(); ++i) {
    asks.push_back(choice.asked[i].alternative(which[i]).of(*choice.open[i]->claim));
    asks.back().request.pinnedNode = choice.node;
  }
  return asks;
}

scheduler::Together PodSync::decide(const std::vector<cache::ClusterView::Ask>& asks, NodeChoice& nodes) {
  scheduler::Together together;
  std::optional<scheduler::QuotaExcess> excess;  // the first that kept it from nodes
  const auto within = [&](const scheduler::NodePredicate& suitable) {
    auto decided = cluster_.decideTogether(asks, suitable);
    if (!excess) excess = decided.excess;
    return decided;
  };
  const auto suits = [&](std::string_view name) { return nodes.suits(name); };
  if (!nodes.ranked()) {
    nodes.setPatience(kLooksUnderLock);
    together = within(suits);
    if (!together.decisions.empty()) return together;
    const bool impatient = nodes.impatient();
    nodes.lookAtAll();
    if (impatient && nodes.anySuits()) together = within(suits);
    if (!together.decisions.empty()) return together;
  } else {
    nodes.lookAtAll();
    std::vector<bool> alone(asks.size(), false);
    for (const auto& group : nodes.groups()) {
      together = within(group);
      if (!together.decisions.empty()) return together;
      for (std::size_t i = 0; i < asks.size(); ++i) alone[i] = alone[i] || together.alone[i];
    }
    together.alone = std::move(alone);
  }
  together.excess = std::move(excess);
  return together;
}

bool PodSync::movable(const core::Pod& pod, const Used& one) const {
  if (!one.device || !claims_.movable(*one.claim, *one.device)) return false;
  const auto node = stores_.nodes.get({"", one.device->spec.nodeName});
  if (!node) return true;
  // It stays for another pod all of whose claims are there.
  for (const auto& other : stores_.podsOfClaim(core::keyOf(one.claim->metadata))) {
    if (other->metadata.uid == pod.metadata.uid || !alive(*other)) continue;
    if (!other->nodeName.empty() && other->nodeName != node->metadata.name) continue;
    const auto there = [&](const auto& entry) {
      const auto claim = stores_.claims.get({other->metadata.namespace_, entry.resourceClaimName});
      const auto device = claim ? claims_.deviceOf(*claim) : nullptr;
      return !claim || (device && device->spec.nodeName == node->metadata.name);
    };
    if (std::all_of(other->resourceClaims.begin(), other->resourceClaims.end(), there) &&
        nodeUnsuitable(*other, {}, *node).empty())
      return false;
  }
  return true;
}

std::optional<Outcome> PodSync::gather(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop) {
  std::string node = pod.nodeName;
  const auto elsewhere = [&](const Used& one) { return one.device && one.device->spec.nodeName != node; };
  if (node.empty()) {
    const auto first = std::find_if(used.begin(), used.end(), [](const auto& one) { return one.device != nullptr; });
    if (first == used.end()) return std::nullopt;
    node = first->device->spec.nodeName;
  }
  if (std::none_of(used.begin(), used.end(), elsewhere)) return std::nullopt;
  // All stay with those that can't move, or with the first by name, so that two pods of the same claims agree.
  node = pod.nodeName;
  const Used* first = nullptr;
  std::vector<const Used*> moving;
  for (const auto& one : used) {
    if (!one.device || one.device->metadata.deleting()) continue;
    if (movable(pod, one)) {
      moving.push_back(&one);
      if (first == nullptr || one.claim->metadata.name < first->claim->metadata.name) first = &one;
    } else if (node.empty()) {
      node = one.device->spec.nodeName;
    } else if (node != one.device->spec.nodeName) {
      return std::nullopt;  // moving the others would not bring these together
    }
  }
  if (node.empty() && first != nullptr) node = first->device->spec.nodeName;
  moving.erase(std::remove_if(moving.begin(), moving.end(), [&](const auto* one) { return !elsewhere(*one); }),
               moving.end());
  if (moving.empty()) return std::nullopt;
  return regroup(moving, "the other claims of pod " + pod.metadata.name + " are on node " + node, stop);
}

Outcome PodSync::regroup(const std::vector<const Used*>& moving, const std::string& why, std::stop_token stop) {
  auto all = Outcome::done();  // the last event of what was given up brings us here again
  for (const auto* one : moving) {
    auto outcome = claims_.regroup(*one->claim, *one->device, why, stop);
    if (outcome.isRetry()) return std::move(outcome).says(std::move(all.said));
    all.said.insert(all.said.end(), outcome.said.begin(), outcome.said.end());
  }
  return all;
}

std::optional<Outcome> PodSync::startOver(const core::Pod& pod, const std::vector<Used>& used, const Choice& choice,
                                          bool* anyShort, std::stop_token stop) {
  if (!pod.nodeName.empty() || choice.fixedBy.empty()) return std::nullopt;
  std::vector<cache::ClusterView::Ask> asks;  // in their order: what is found must be found again
  std::vector<const Used*> moving;
  std::vector<std::string> devices;
  for (const auto& one : used) {
    if (one.device && !movable(pod, one)) return std::nullopt;
    const auto asked = claims_.ask(*one.claim);
    if (asked.later) return Outcome::after(milliseconds(50));
    if (!asked.ok()) return std::nullopt;
    asks.push_back(asked.of(*one.claim));
    if (!one.device) continue;
    moving.push_back(&one);
    devices.push_back(one.device->metadata.name);
  }
  auto volumes = volumes_.of(pod, stop);
  if (!volumes.ok()) return Outcome::retry(volumes.status());
  NodeChoice nodes(stores_, pod, std::move(*volumes), {}, [&](std::string_view name) {
    return std::any_of(asks.begin(), asks.end(),
                       [&](const auto& ask) { return waiting_.nodes.rejected(ask.claimUid, name); });
  });
  nodes.lookAtAll();
  *anyShort = *anyShort || nodes.anyShort();
  if (!cluster_.wouldFitTogether(
          asks, [&](std::string_view name) { return nodes.suits(name); }, devices))
    return std::nullopt;
  return regroup(
      moving, "it has no room for the other claims of pod " + pod.metadata.name + ", and together they fit elsewhere",
      stop);
}

bool PodSync::suitsAnotherPod(const core::Pod& pod, const std::vector<Used>& used, const core::Node& node) const {
  for (const auto& one : used)
    for (const auto& other : stores_.podsOfClaim(core::keyOf(one.claim->metadata)))
      if (other->metadata.uid != pod.metadata.uid && alive(*other) && nodeUnsuitable(*other, {}, node).empty())
        return true;
  return false;
}

Outcome PodSync::unsuited(const core::Pod& pod, const std::vector<Used>& used, bool anyBound, const std::string& why) {
  const auto& node = used.front().device->spec.nodeName;
  // Pinned there it could never run, and a pin is for good; not pinned, the scheduler would clear what another pod
  // needs.
  return Outcome::done().says(notCarried(used, "pod " + pod.metadata.name + " can't run on node " + node +
                                                   (anyBound ? "" : ", chosen for another pod") + ": " + why));
}

std::vector<Said> PodSync::notCarried(const std::vector<Used>& used, const std::string& message) {
  std::vector<Said> said;
  for (const auto& one : used)
    if (one.device)
      said.push_back(Said::of(one.claim->metadata, Said::As::notCarried, reason::kNodeUnsuitable, message));
  return said;
}

std::optional<Outcome> PodSync::areApart(const core::Pod& pod, const std::vector<Used>& used) {
  const Used* first = nullptr;
  for (const auto& one : used) {
    if (!one.device) continue;
    if (first == nullptr) first = &one;
    const auto& node = first->device->spec.nodeName;
    if (one.device->spec.nodeName == node) continue;
    // Two claims on different nodes never fit one pod.
    return Outcome::done().says(notCarried(
        used, "pod " + pod.metadata.name + " can't run: claim " + first->claim->metadata.name + " is on node " + node +
                  ", claim " + one.claim->metadata.name + " on node " + one.device->spec.nodeName));
  }
  return std::nullopt;
}

Outcome PodSync::letGo(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop) {
  for (const auto& one : used) {
    // A pin is for good: not to hardware that is gone. What becomes of a Lost claim is an event.
    if (one.claim->status.phase == phase::kLost || one.device->status.phase == phase::kFailed) return Outcome::done();
    if (one.device->metadata.deleting() && !committed(*one.device)) return Outcome::done();  // rolled back
    if (one.device->status.reason == reason::kWaitingForGang) return Outcome::done();        // it is given back
    if (one.device->status.reason == reason::kPreempted)
      return Outcome::done();  // its claim leaves it, or the mark goes
    if (one.device->status.reason == reason::kCardGone) return Outcome::after(milliseconds(100));  // Lost soon, or not
  }
  if (const auto apart = areApart(pod, used)) return *apart;
  if (!allCarried(pod, used)) return Outcome::done();  // their allocations are events
  const bool anyBound =
      std::any_of(used.begin(), used.end(), [](const auto& one) { return one.device->status.phase == phase::kBound; });
  const auto& node = used.front().device->spec.nodeName;
  const auto object = stores_.nodes.get({"", node});
  auto volumes = volumes_.of(pod, stop);
  if (!volumes.ok()) return Outcome::retry(volumes.status());
  const auto why = object ? nodeUnsuitable(pod, *volumes, *object) : "there is no such node";
  if (why.empty()) return liftGate(pod, used, anyBound, stop);
  if (!anyBound && (!object || !suitsAnotherPod(pod, used, *object)))
    return claims_.moveAway(*used.front().claim, *used.front().device,
                            "pod " + pod.metadata.name + " can't run there: " + why, stop);
  return unsuited(pod, used, anyBound, why);
}

bool PodSync::allCarried(const core::Pod& pod, const std::vector<Used>& used) {
  for (const auto& one : used) {
    const auto carrier = stores_.carriers.get(core::keyOf(one.claim->metadata));
    if (carrier && carrier->metadata.deleting() && !carrier->reservedFor.empty())
      tell(pod, one.claim->metadata.name, "Leaving",
           "its ResourceClaim is being deleted and is still reserved for other pods");
    if (!carrier || carrier->metadata.deleting() || !claims_.carries(*carrier, *one.claim) || !carrier->allocation ||
        carrier->allocation->device != one.device->metadata.name)
      return false;
    if (!claims_.gangIsBound(*one.claim)) return false;  // routing.cpp: the last one's brings us here
    const bool bound = one.device->status.phase == phase::kBound;
    if (!bound && !claims_.waitsForConsumer(*one.claim)) return false;  // Immediate: Bound first
  }
  return true;
}

std::optional<Outcome> PodSync::removeGate(const core::Pod& pod, const std::string& body, std::stop_token stop) {
  const auto lifted = writer_.patch(pod, body, {}, stop, kube::PatchType::json);
  if (lifted.ok()) return std::nullopt;
  if (lifted.status().code() == base::Code::notFound) return Outcome::done();
  const auto now = writer_.read<core::Pod>(core::keyOf(pod.metadata), pod.metadata.uid, stop);
  const bool changed = now.ok() && now->metadata.resourceVersion != pod.metadata.resourceVersion;
  return changed ? Outcome::again() : Outcome::retry(lifted.status());
}

Outcome PodSync::liftGate(const core::Pod& pod, const std::vector<Used>& used, bool anyBound, std::stop_token stop) {
  const auto& node = used.front().device->spec.nodeName;
  const auto body = anyBound ? codec::patch::pinAndLift(pod, node, keys::kSchedulingGate)
                             : codec::patch::liftGate(pod, keys::kSchedulingGate);
  if (const auto failed = removeGate(pod, body, stop)) return *failed;
  auto outcome = Outcome::done();
  for (const auto& one : used) {
    const auto* carried = findCondition(one.claim->status.conditions, kCarried);
    if (carried != nullptr && carried->reason == reason::kNodeUnsuitable)
      outcome.said.push_back(Said::of(one.claim->metadata, Said::As::carried, {}, {}));
  }
  return outcome;
}

}  // namespace egpu::reconcile
