#include "controller/kubectl/why/chain.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/mig.h"
#include "api/v1alpha/quantity.h"
#include "api/v1alpha/remote.h"
#include "controller/base/timestamp.h"
#include "controller/kubectl/output.h"

namespace egpu::kubectl {

namespace {

namespace keys = v1alpha::keys;

const Json& conditionOf(const Json& object, std::string_view type) {
  static const Json none;
  for (const auto& condition : at(object, {"status", "conditions"}))
    if (textAt(condition, {"type"}) == type) return condition;
  return none;
}

int64_t timeAt(const Json& object, std::initializer_list<std::string_view> path) {
  return base::unixSeconds(textAt(object, path));
}
int64_t createdAt(const Json& object) { return timeAt(object, {"metadata", "creationTimestamp"}); }

bool isFalse(const Json& condition) { return textAt(condition, {"status"}) == "False"; }

void take(ChainStep& step, const Json& condition, StepState state) {
  step.state = state;
  step.reason = textAt(condition, {"reason"});
  step.message = textAt(condition, {"message"});
  step.since = timeAt(condition, {"lastTransitionTime"});
}

/// The state of a pod's containers that wait; false if none does.
bool waitsInContainer(const Json& pod, ChainStep& step) {
  for (const char* list : {"initContainerStatuses", "containerStatuses"})
    for (const auto& container : at(pod, {"status", list})) {
      const auto& waiting = at(container, {"state", "waiting"});
      if (waiting.is_null()) continue;
      step.state = StepState::waiting;
      step.reason = textAt(waiting, {"reason"});
      step.message = "container " + textAt(container, {"name"}) + ": " + textAt(waiting, {"message"});
      return true;
    }
  return false;
}

std::string gatesOf(const Json& pod) {
  std::vector<std::string> names;
  for (const auto& gate : at(pod, {"spec", "schedulingGates"})) names.push_back(textAt(gate, {"name"}));
  return joined(names);
}

/// State of a pod that is neither running nor over.
void describePending(const Evidence& e, ChainStep& step) {
  const auto& scheduled = conditionOf(e.pod, "PodScheduled");
  const auto& started = at(e.pod, {"status", "startTime"});
  if (const auto gates = gatesOf(e.pod); !gates.empty()) {
    step.state = StepState::waiting;
    step.reason = "SchedulingGated";
    step.message = "scheduling gates: " + gates;
    if (!e.pendingPart.empty()) step.message += "; no claim was created from template " + e.pendingPart + " yet";
  } else if (isFalse(scheduled)) {
    take(step, scheduled, StepState::waiting);
  } else if (!waitsInContainer(e.pod, step)) {
    step.state = StepState::waiting;
    step.reason = "Pending";
    step.message = textAt(e.pod, {"spec", "nodeName"}).empty() ? "the scheduler has not placed it yet"
                                                               : "its node has not started it yet";
  }
  if (step.since == 0) step.since = started.is_string() ? timeAt(e.pod, {"status", "startTime"}) : createdAt(e.pod);
  if (!e.podEvent.empty()) step.message += "; last warning: " + e.podEvent;
}

ChainStep podStep(const Evidence& e) {
  ChainStep step{.step = "pod"};
  if (e.pod.is_null()) {
    step.message = "no pod uses the claim, as far as the ResourceClaim and the pending pods tell";
    return step;
  }
  step.object = e.space + "/" + textAt(e.pod, {"metadata", "name"});
  step.since = createdAt(e.pod);
  const auto phase = textAt(e.pod, {"status", "phase"});
  if (const auto deleted = timeAt(e.pod, {"metadata", "deletionTimestamp"}); deleted != 0) {
    step.state = StepState::waiting;
    step.reason = "Terminating";
    step.message = "it is being deleted";
    step.since = deleted;
  } else if (phase == "Failed") {
    step.state = StepState::failed;
    step.reason = textAt(e.pod, {"status", "reason"});
    step.message = textAt(e.pod, {"status", "message"});
  } else if (phase == "Succeeded") {
    step.state = StepState::done;
    step.message = "it has ended";
  } else if (phase == "Running") {
    const auto& ready = conditionOf(e.pod, "Ready");
    step.state = StepState::done;
    step.message = "it runs on node " + textAt(e.pod, {"spec", "nodeName"});
    if (isFalse(ready) && !waitsInContainer(e.pod, step)) step.message += ", not ready";
    step.since = timeAt(e.pod, {"status", "startTime"});
  } else {
    describePending(e, step);
  }
  return step;
}

ChainStep claimStep(const ClaimEvidence& c) {
  ChainStep step{.step = "claim", .object = c.space + "/" + c.name};
  if (c.claim.is_null()) {
    const auto it = c.unreadable.find("claim");
    step.state = it == c.unreadable.end() ? StepState::waiting : StepState::unknown;
    step.reason = it == c.unreadable.end() ? "ClaimNotFound" : "";
    step.message = it == c.unreadable.end() ? "there is no ElasticGPUClaim of this name" : it->second;
    return step;
  }
  step.since = createdAt(c.claim);
  const auto phase = textAt(c.claim, {"status", "phase"});
  const auto& accepted = conditionOf(c.claim, "Accepted");
  const auto& bound = conditionOf(c.claim, "Bound");
  if (const auto deleted = timeAt(c.claim, {"metadata", "deletionTimestamp"}); deleted != 0) {
    take(step, bound, StepState::waiting);
    if (step.reason.empty()) step.reason = "Terminating";
    step.since = deleted;
  } else if (isFalse(accepted)) {
    take(step, accepted, StepState::failed);
  } else if (phase == keys::phase::kLost) {
    take(step, bound, StepState::failed);
  } else {
    step.state = StepState::done;
    const auto className = textAt(c.claim, {"status", "egpuClassName"});
    step.message =
        phase.empty() ? "not seen by the controller yet" : phase + (className.empty() ? "" : ", class " + className);
    if (phase.empty()) {
      step.state = StepState::waiting;
      step.reason = "NoStatus";
    }
  }
  return step;
}

std::vector<std::string> cardNames(const Json& device) {
  std::vector<std::string> names;
  for (const auto& card : at(device, {"spec", "cards"})) names.push_back(textAt(card, {"name"}));
  return names;
}

/// True if pods on any node with an agent can use the claim's device.
bool isOnAnyNode(const ClaimEvidence& c) {
  return !at(c.device, {"spec", "remote"}).is_null() && textAt(c.device, {"spec", "nodeName"}).empty();
}

std::string endpointOf(const ClaimEvidence& c) {
  return v1alpha::withoutSecrets(textAt(c.device, {"spec", "remote", "endpoint"}));
}

ChainStep decisionStep(const ClaimEvidence& c) {
  ChainStep step{.step = "decision"};
  const auto& bound = conditionOf(c.claim, "Bound");
  const auto node = textAt(c.claim, {"status", "nodeName"});
  if (!c.device.is_null() || !textAt(c.claim, {"status", "elasticGPUName"}).empty()) {
    step.state = StepState::done;
    step.since = c.device.is_null() ? timeAt(bound, {"lastTransitionTime"}) : createdAt(c.device);
    if (isOnAnyNode(c)) {
      step.message = "a remote GPU, for pods on any node with an agent";
      return step;
    }
    const auto place = node.empty() ? textAt(c.device, {"spec", "nodeName"}) : node;
    step.object = place;
    const auto cards = cardNames(c.device);
    step.message = "node " + place + (cards.empty() ? "" : ", cards " + joined(cards));
    return step;
  }
  take(step, bound, StepState::waiting);
  if (step.reason.empty()) {
    step.reason = "Undecided";
    step.message = "the controller has not decided about the claim yet";
    step.since = createdAt(c.claim);
  }
  if (const auto to = textAt(c.claim, {"status", "nominated", "nodeName"}); !to.empty()) step.object = to;
  return step;
}

/// Returns the profile and the slots of an entry of MIG instances.
std::string slotsOf(const Json& entry, const Json& device) {
  v1alpha::Slots slots;
  for (const auto& slot : at(entry, {"slots"}))
    if (slot.is_number_unsigned() && slot.get<unsigned>() < v1alpha::Slots::kCount)
      slots.bits = static_cast<uint16_t>(slots.bits | 1u << slot.get<unsigned>());
  return slots.empty() ? ""
                       : ", " + textAt(device, {"spec", "mig", "profile"}) + " in slots " + v1alpha::slotList(slots);
}

ChainStep ledgerStep(const ClaimEvidence& c) {
  ChainStep step{.step = "ledger"};
  const auto unread = c.unreadable.find(c.device.is_null() ? "device" : "card");
  if (unread != c.unreadable.end()) {
    step.state = StepState::unknown;
    step.message = "cards can't be read: " + unread->second;
    return step;
  }
  if (c.device.is_null()) return step;
  if (isOnAnyNode(c)) {
    step.state = StepState::done;
    step.since = createdAt(c.device);
    step.message = "a remote GPU uses no card";
    return step;
  }
  const auto uid = textAt(c.device, {"metadata", "uid"});
  std::vector<std::string> with, without = cardNames(c.device);
  for (const auto& card : c.cards) {
    const auto name = textAt(card, {"metadata", "name"});
    const auto& entry = at(card, {"spec", "allocations", uid});
    if (entry.is_null()) continue;
    without.erase(std::remove(without.begin(), without.end(), name), without.end());
    with.push_back(name + " " + v1alpha::formatMilliCards(numberAt(entry, {"core"})) + " " +
                   v1alpha::readableBytes(numberAt(entry, {"memory"})) + slotsOf(entry, c.device));
  }
  step.since = createdAt(c.device);
  if (without.empty()) {
    step.state = StepState::done;
    step.message = "charged: " + joined(with);
  } else {
    step.state = StepState::waiting;
    step.reason = "NoEntry";
    step.message = "these cards have no entry of the device: " + joined(without);
  }
  return step;
}

ChainStep resourceClaimStep(const ClaimEvidence& c) {
  ChainStep step{.step = "ResourceClaim", .object = c.space + "/" + c.name};
  const auto& ready = conditionOf(c.claim, "ResourceClaimReady");
  if (const auto it = c.unreadable.find("ResourceClaim"); it != c.unreadable.end()) {
    step.state = StepState::unknown;
    step.message = it->second;
  } else if (isFalse(ready)) {
    take(step, ready, StepState::failed);
  } else if (c.resourceClaim.is_null()) {
    step.object.clear();
    step.state = c.usedByPod && textAt(c.claim, {"status", "phase"}) == keys::phase::kBound ? StepState::waiting
                                                                                            : StepState::open;
    step.reason = step.state == StepState::waiting ? "NoResourceClaim" : "";
    step.message = "the controller creates it when a pod uses the claim";
  } else if (at(c.resourceClaim, {"status", "allocation"}).is_null()) {
    step.state = c.device.is_null() ? StepState::open : StepState::waiting;
    step.since = createdAt(c.resourceClaim);
    step.reason = step.state == StepState::waiting ? "NotAllocated" : "";
    step.message = "it has no allocation yet";
  } else {
    std::vector<std::string> users;
    for (const auto& user : at(c.resourceClaim, {"status", "reservedFor"})) users.push_back(textAt(user, {"name"}));
    step.state = StepState::done;
    step.since = timeAt(c.resourceClaim, {"status", "allocation", "allocationTimestamp"});
    if (step.since == 0) step.since = createdAt(c.resourceClaim);
    step.message = users.empty() ? "allocated, not reserved for a pod" : "allocated, reserved for " + joined(users);
  }
  return step;
}

ChainStep nodeStep(const ClaimEvidence& c) {
  ChainStep step{.step = "node"};
  if (isOnAnyNode(c)) {
    step.message = "any node with an agent";
    return step;
  }
  step.object = textAt(c.claim, {"status", "nodeName"});
  if (step.object.empty()) step.object = textAt(c.device, {"spec", "nodeName"});
  if (const auto it = c.unreadable.find("node"); it != c.unreadable.end()) {
    step.state = StepState::unknown;
    step.message = it->second;
    return step;
  }
  if (c.node.is_null()) {
    if (!step.object.empty()) {
      step.state = StepState::failed;
      step.reason = "NodeGone";
      step.message = "there is no such node";
    }
    return step;
  }
  const auto& ready = conditionOf(c.node, "Ready");
  take(step, ready, textAt(ready, {"status"}) == "True" ? StepState::done : StepState::failed);
  if (step.state == StepState::done) {
    step.reason.clear();
    step.message = at(c.node, {"spec", "unschedulable"}) == true ? "ready, cordoned" : "ready";
  } else if (step.reason.empty()) {
    step.reason = "NodeNotReady";
  }
  return step;
}

/// A card or the device that is not healthy, or that the containers lost; false if there is none.
bool isUnhealthy(const ClaimEvidence& c, ChainStep& step) {
  if (const auto& healthy = conditionOf(c.claim, "Healthy"); isFalse(healthy)) {
    take(step, healthy, StepState::failed);
    return true;
  }
  for (const auto& card : c.cards)
    if (const auto& healthy = conditionOf(card, "Healthy"); isFalse(healthy)) {
      take(step, healthy, StepState::failed);
      step.message = "card " + textAt(card, {"metadata", "name"}) + ": " + step.message;
      return true;
    }
  for (const char* type : {"AccessLost", "IsolationBypassed"})
    if (const auto& problem = conditionOf(c.claim, type); textAt(problem, {"status"}) == "True") {
      take(step, problem, StepState::failed);
      return true;
    }
  return false;
}

ChainStep deviceStep(const ClaimEvidence& c) {
  ChainStep step{.step = "device", .object = textAt(c.claim, {"status", "elasticGPUName"})};
  if (step.object.empty()) step.object = textAt(c.device, {"metadata", "name"});
  if (isUnhealthy(c, step)) return step;
  const auto& bound = conditionOf(c.claim, "Bound");
  const bool isBound = textAt(c.claim, {"status", "phase"}) == keys::phase::kBound;
  if (c.device.is_null() && !isBound) return step;
  if (isBound) {
    step.state = StepState::done;
    step.since = timeAt(bound, {"lastTransitionTime"});
    const auto granted = textAt(c.claim, {"status", "capacity", "core"});
    step.message =
        "Bound: " + granted + (granted.empty() ? "" : " ") + textAt(c.claim, {"status", "capacity", "memory"});
    if (!endpointOf(c).empty()) step.message = "Bound: " + endpointOf(c);
    if (const auto used = textAt(c.claim, {"status", "usage", "text"}); !used.empty()) step.message += ", uses " + used;
  } else {
    take(step, bound, StepState::waiting);
    if (step.reason.empty()) step.reason = "Provisioning";
  }
  return step;
}

std::vector<std::string> helpFor(const Chain& chain, const Evidence& e, const ClaimEvidence* c) {
  const auto& step = chain.steps[static_cast<std::size_t>(chain.stopsAt)];
  if (c != nullptr && isOnAnyNode(*c) && step.reason == keys::reason::kNoFit)
    return {"wait: the pool is asked again; delete claims of the class, or add GPUs to its pool"};
  return kubectl::helpFor(step.reason, e.space, c == nullptr ? std::string() : c->name);
}

/// True for the steps whose state counts as the chain's.
bool holdsUp(const ChainStep& step) { return step.state == StepState::waiting || step.state == StepState::failed; }

void conclude(Chain& chain, const Evidence& e, const ClaimEvidence* c) {
  for (std::size_t i = 1; i < chain.steps.size() && chain.stopsAt < 0; ++i)
    if (holdsUp(chain.steps[i])) chain.stopsAt = static_cast<int>(i);
  if (chain.stopsAt < 0 && holdsUp(chain.steps[0])) chain.stopsAt = 0;
  if (chain.stopsAt >= 0) chain.help = helpFor(chain, e, c);
}

}  // namespace

std::string toString(StepState state) {
  switch (state) {
    case StepState::done:
      return "Done";
    case StepState::waiting:
      return "Waiting";
    case StepState::failed:
      return "Failed";
    case StepState::unknown:
      return "Unknown";
    case StepState::open:
      return "-";
  }
  return "-";
}

std::vector<Chain> chainsOf(const Evidence& evidence) {
  std::vector<Chain> chains;
  for (const auto& c : evidence.claims) {
    Chain chain;
    chain.claim = c.space + "/" + c.name;
    chain.steps = {podStep(evidence),    claimStep(c), decisionStep(c), ledgerStep(c),
                   resourceClaimStep(c), nodeStep(c),  deviceStep(c)};
    if (chain.steps[1].state != StepState::done)
      for (std::size_t i = 2; i < chain.steps.size(); ++i)
        if (c.device.is_null() && chain.steps[i].state == StepState::waiting)
          chain.steps[i] = {.step = chain.steps[i].step};
    conclude(chain, evidence, &c);
    chains.push_back(std::move(chain));
  }
  if (!chains.empty()) return chains;
  Chain alone;
  alone.steps = {podStep(evidence)};
  if (evidence.pendingPart.empty())
    alone.steps[0].message += (alone.steps[0].message.empty() ? "" : "; ") + std::string("it uses no ElasticGPUClaim");
  conclude(alone, evidence, nullptr);
  chains.push_back(std::move(alone));
  return chains;
}

}  // namespace egpu::kubectl
