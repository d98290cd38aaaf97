#include "controller/whatif/question/subject.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <variant>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/validation.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/claim/resolve.h"
#include "controller/reconcile/class/class.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/class/remote_class.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/scheduler/first_available.h"
#include "controller/whatif/answer/snapshot.h"

namespace egpu::whatif {

namespace {

namespace keys = v1alpha::keys;
using base::Code;
using base::Status;
using cache::Stores;

constexpr const char* kAlone = "; this answer is for the claim alone";

/// Returns the key of a request without its prefix.
std::string bare(const std::string& key) {
  const auto slash = key.rfind('/');
  return key.substr(slash == std::string::npos ? 0 : slash + 1);
}

std::string prefixed(std::string_view key) { return std::string(keys::kGroup) + "/" + std::string(key); }

Status refused(const scheduler::Refusal& refusal) {
  return {Code::invalid, (refusal.field.empty() ? "" : refusal.field + ": ") + refusal.message};
}

std::string taintNote(const Stores& stores, const cache::Class& cls) {
  const auto taints = reconcile::untoleratedText(stores, cls);
  return taints.empty()
             ? taints
             : "nodes with taints that class " + cls.metadata.name + " does not tolerate are left out: " + taints;
}

/// Returns why a class can't be used; empty if it can, or if its state is unknown.
std::string notReadyText(const cache::Class& cls) {
  const auto* ready = reconcile::findCondition(cls.conditions, reconcile::kReady);
  return ready != nullptr && ready->status == "False" ? "the class is not ready: " + ready->message : std::string();
}

/// Copies the properties of the class to the subject.
void ofClass(Subject& subject, const cache::Class& cls) {
  subject.className = cls.metadata.name;
  subject.immediate = cls.bindingMode != "WaitForFirstConsumer";
  subject.notReady = notReadyText(cls);
}

std::string classNames(const Stores& stores) {
  std::vector<std::string> names;
  stores.classes.forEach([&](const auto& cls) { names.push_back(cls->metadata.name); });
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "; there are " : ", ") + name;
  return text.empty() ? "; there is none" : text;
}

}  // namespace

std::string requestsText(const core::StringMap& requests) {
  core::StringMap byName;  // without the prefixes
  for (const auto& [key, amount] : requests) byName[bare(key)] = amount;
  std::string text;
  for (const auto& [name, amount] : byName) text += (text.empty() ? "" : ", ") + name + " " + amount;
  return text.empty() ? "a whole card" : text;
}

std::string Subject::requestText() const { return requestsText(requests); }

void Subject::choose(std::size_t which) {
  request = alternatives[which];
  requests = named[which].requests;
  note += (note.empty() ? "this is about " : "; this is about ") + named[which].name + " of its alternatives ";
  for (std::size_t i = 0; i < named.size(); ++i) note += (i == 0 ? "" : ", ") + named[i].name;
}

void Subject::chooseFirst(const std::function<bool(const scheduler::Request&)>& fits) {
  if (alternatives.empty() || !request) return;
  const auto tried = scheduler::decideFirst(alternatives.size(), [&](std::size_t which) {
    scheduler::Decision decision;
    decision.fits = fits(alternatives[which]);
    return std::optional(std::move(decision));
  });
  choose(tried.back().fits ? tried.back().alternative : 0);
}

core::StringMap changedRequests(core::StringMap requests, const core::StringMap& changes) {
  for (const auto& [key, amount] : changes) {
    const auto name = bare(key);
    const auto other = name == keys::kGpuCore ? keys::kTflops : name == keys::kTflops ? keys::kGpuCore : name;
    erase_if(requests, [&](const auto& request) {
      const auto have = bare(request.first);
      return have == name || have == other;
    });
    if (!amount.empty()) requests[name == key ? prefixed(key) : key] = amount;
  }
  return requests;
}

core::ObjectKey claimKeyOf(const std::string& text, const std::string& space) {
  auto key = core::ObjectKey::of(text);
  if (key.namespace_.empty()) key.namespace_ = space;
  return key;
}

base::Result<Subject> existingSubject(const Stores& stores, const core::ObjectKey& key) {
  const auto claim = stores.claims.get(key);
  if (!claim) return Status(Code::notFound, "claim: there is no ElasticGPUClaim \"" + key.str() + "\"");
  auto record = recordOf(stores, *claim, true);
  Subject subject;
  subject.claim = std::move(record.name);
  subject.exists = true;
  subject.phase = claim->status.phase.empty() ? "Pending" : claim->status.phase;
  subject.node = claim->status.nodeName;
  subject.device = claim->status.elasticGPUName;
  for (const auto& [type, status] :
       {std::pair(reconcile::kAccepted, "False"), std::pair(reconcile::kBound, "False"),
        std::pair(reconcile::kAccessLost, "True"), std::pair(reconcile::kIsolationBypassed, "True")})
    if (const auto* condition = reconcile::findCondition(claim->status.conditions, type);
        condition != nullptr && condition->status == status && subject.problem.empty())
      subject.problem = condition->reason + ": " + condition->message;
  subject.className = reconcile::classNameOf(stores, *claim);
  subject.requests = claim->spec.requests;
  subject.named = claim->spec.firstAvailable;
  subject.alternatives = std::move(record.alternatives);
  subject.request = std::move(record.request);
  subject.why = std::move(record.why);
  subject.suits = std::move(record.suits);
  subject.whyUnsuited = std::move(record.whyUnsuited);
  const auto cls = stores.classes.get({"", subject.className});
  if (cls) ofClass(subject, *cls);
  const bool waits = cls && reconcile::isPlacedWithPod(stores, *claim, *cls);
  subject.immediate = cls && !waits;
  if (waits) {
    if (subject.suits) subject.note = "the volumes of its pods are not considered";
  } else if (cls) {
    subject.note = taintNote(stores, *cls);
  }
  subject.inGang = subject.device.empty() && reconcile::inGang(stores, *claim);
  const bool held = subject.device.empty() && reconcile::obstacleOf(stores, *claim, waits);
  if (subject.request && held)
    subject.note = subject.why + "; until then its pod may change";
  else if (subject.request && !subject.why.empty())
    subject.note = subject.why + (subject.inGang ? kAlone : "; the node conditions of that pod are not known yet");
  return subject;
}

base::Result<Subject> wouldBeSubject(const Stores& stores, const v1alpha::ElasticGPUClaim& claim,
                                     const std::string& space) {
  auto named = claim;
  if (named.metadata.namespace_.empty()) named.metadata.namespace_ = space;
  const bool unnamed = named.metadata.name.empty();
  if (unnamed) named.metadata.name = "new";
  if (const auto errors = v1alpha::validate(named); !errors.empty())
    return Status(Code::invalid, errors.front().field + ": " + errors.front().message);
  std::string why;
  const auto cls = reconcile::classOf(stores, named, &why);
  if (!cls) return Status(Code::invalid, "spec.egpuClassName: " + why + classNames(stores));
  if (reconcile::isStatic(named)) {
    const auto gpu = stores.gpu(named.spec.elasticGPUName);
    if (!gpu)
      return Status(Code::invalid, "spec.elasticGPUName: there is no ElasticGPU \"" + named.spec.elasticGPUName + "\"");
    if (gpu->isDevice())
      return Status(Code::invalid, "spec.elasticGPUName: " + named.spec.elasticGPUName +
                                       " is a device, which is bound as it is; name a card, or none");
  }
  auto made = reconcile::schedulingRequestOf(stores, named, *cls);
  if (const auto* refusal = std::get_if<scheduler::Refusal>(&made)) return refused(*refusal);
  Subject subject;
  if (!unnamed) subject.claim = core::keyOf(named.metadata).str();
  ofClass(subject, *cls);
  subject.requests = named.spec.requests;
  if (reconcile::isRemote(stores, *cls)) {
    subject.why = remoteText(*cls);
    return subject;
  }
  subject.request = std::get<scheduler::Request>(std::move(made));
  if (!named.spec.firstAvailable.empty()) {
    subject.named = named.spec.firstAvailable;
    subject.alternatives =
        std::get<std::vector<scheduler::Request>>(reconcile::schedulingRequestsOf(stores, named, *cls));
  }
  if (subject.immediate) {
    subject.suits = reconcile::toleratedNodes(stores, *cls);
    subject.whyUnsuited = untolerated;
    subject.note = taintNote(stores, *cls);
  }
  subject.inGang = reconcile::inGang(stores, named);
  if (subject.inGang) {
    subject.why = decidedWith(stores, named);
    subject.note = subject.why + kAlone;
  }
  if (!subject.notReady.empty()) subject.note = subject.notReady;
  return subject;
}

/// Adds MIG instances; without a number it is one.
static void addInstances(const std::string& value, core::StringMap& requests) {
  const auto [number, profile] = v1alpha::splitInstances(value);
  requests[prefixed(std::string(keys::kMigPrefix) + profile)] = number.empty() ? "1" : number;
}

std::optional<v1alpha::ElasticGPUClaim> claimOfFields(const QueryFields& fields) {
  static constexpr auto kRequests =
      std::to_array<std::string_view>({keys::kGpu, keys::kGpuCore, keys::kGpuMemory, keys::kTflops});
  v1alpha::ElasticGPUClaim claim;
  bool any = false;
  for (const auto& [key, value] : fields) {
    bool known = true;
    if (key == "class")
      claim.spec.className = value;
    else if (key == "card")
      claim.spec.elasticGPUName = value;
    else if (std::find(kRequests.begin(), kRequests.end(), key) != kRequests.end())
      claim.spec.requests[prefixed(key)] = value;
    else if (key == "mig")
      addInstances(value, claim.spec.requests);
    else
      known = false;
    any = any || known;
  }
  return any ? std::optional(claim) : std::nullopt;
}

base::Result<scheduler::Request> requestOf(const Stores& stores, const v1alpha::ElasticGPUClaim& claim) {
  std::string why;
  const auto cls = reconcile::classOf(stores, claim, &why);
  if (!cls) return Status(Code::invalid, why);
  auto made = reconcile::schedulingRequestOf(stores, claim, *cls);
  if (const auto* refusal = std::get_if<scheduler::Refusal>(&made)) return refused(*refusal);
  return std::get<scheduler::Request>(std::move(made));
}

}  // namespace egpu::whatif
