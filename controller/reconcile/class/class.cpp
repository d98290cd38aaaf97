#include "controller/reconcile/class/class.h"

#include <tuple>

#include "api/v1alpha/keys.h"
#include "controller/base/backoff.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/class/remote_class.h"
#include "controller/scheduler/choice/class_models.h"
#include "controller/scheduler/request.h"

namespace egpu::reconcile {

namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

bool ClassSync::isDefault(const cache::Class& cls) {
  return cls.metadata.annotation(v1alpha::keys::kDefaultClassAnnotation) == "true";
}

cache::Store<cache::Class>::Ptr classOf(const cache::Stores& stores, const cache::Claim& claim, std::string* why) {
  const auto& name = claim.spec.effectiveClass();
  if (!name.empty()) {
    auto cls = stores.classes.get({"", name});
    if (!cls && why != nullptr) *why = "ElasticGPUClass \"" + name + "\" not found";
    return cls;
  }
  cache::Store<cache::Class>::Ptr best;
  stores.classes.forEach([&](const auto& cls) {
    if (!ClassSync::isDefault(*cls)) return;
    if (!best || std::tie(cls->metadata.creationTimestamp, cls->metadata.name) <
                     std::tie(best->metadata.creationTimestamp, best->metadata.name))
      best = cls;
  });
  if (!best && why != nullptr)
    *why =
        "no class is named and no ElasticGPUClass is annotated " + std::string(v1alpha::keys::kDefaultClassAnnotation);
  return best;
}

std::string classNameOf(const cache::Stores& stores, const cache::Claim& claim) {
  for (const auto& device : stores.devicesOfClaim(claim.metadata.uid))
    if (!device->spec.className.empty()) return device->spec.className;
  if (const auto& named = claim.spec.effectiveClass(); !named.empty()) return named;
  const auto cls = classOf(stores, claim, nullptr);
  return cls ? cls->metadata.name : std::string();
}

Readiness ClassSync::readiness(const cache::Class& cls) {
  bool failedNow = false;
  auto answer = readVerdict(cls, false, failedNow);
  if (answer.passing) {
    const base::MutexLock lock(mutex_);
    notified_.insert(cls.metadata.uid);
  }
  if (failedNow) failed_(cls);
  return answer;
}

Readiness ClassSync::readVerdict(const cache::Class& cls, bool mayAsk, bool& failedNow) {
  {
    const base::MutexLock lock(mutex_);
    const auto it = verdicts_.find(cls.metadata.uid);
    const bool due = mayAsk && it != verdicts_.end() && it->second.answer.passing && clock_.now() >= it->second.again;
    if (it != verdicts_.end() && !due) return it->second.answer;
  }
  bool remember = true;
  auto answer = ask(cls, remember);
  if (!remember) return answer;
  failedNow = answer.passing;
  const base::MutexLock lock(mutex_);
  auto& known = verdicts_[cls.metadata.uid];
  const auto wait = answer.passing ? base::nextBackoff(known.wait, timeouts_.firstCallBackoff, timeouts_.maxCallBackoff)
                                   : milliseconds(0);
  known = {cls.metadata.name, cls.provisioner, answer, wait, clock_.now() + wait};
  return answer;
}

milliseconds ClassSync::untilAsked(const std::string& uid) {
  const base::MutexLock lock(mutex_);
  const auto it = verdicts_.find(uid);
  const auto now = clock_.now();
  if (it == verdicts_.end() || it->second.again <= now) return {};
  return std::chrono::ceil<milliseconds>(it->second.again - now);
}

/// Forgets the answers for deleted classes of that name.
void ClassSync::forgetOthers(const std::string& name, const std::string& uid) {
  const base::MutexLock lock(mutex_);
  for (auto it = verdicts_.begin(); it != verdicts_.end();) {
    const bool other = it->second.name == name && it->first != uid;
    if (other) notified_.erase(it->first);
    it = other ? verdicts_.erase(it) : std::next(it);
  }
}

Readiness ClassSync::ask(const cache::Class& cls, bool& remember) {
  Readiness answer;
  std::string why;
  if (provisioning_.find(cls.provisioner, &why) == nullptr) {
    answer.reason = std::string(reason::kProvisionerUnavailable);
    answer.message = why.empty() ? "provisioner " + cls.provisioner + " is not loaded" : why;
    remember = false;  // the check is free
    return answer;
  }
  const auto state = provisioning_.registry().readiness(cls.provisioner);
  if (!state.ok()) {
    answer.reason = std::string(reason::kProvisionerUnavailable);
    answer.message = "provisioner " + cls.provisioner + ": " + state.message;
    remember = false;
    return answer;
  }
  if (auto refusals = scheduler::checkParameters(cls); !refusals.empty()) {
    answer.reason = refusals.front().reason;
    answer.message = refusals.front().field + ": " + refusals.front().message;
    return answer;
  }
  if (const auto refusal = remoteParameterRefusal(stores_, cls)) {
    answer.reason = refusal->reason;
    answer.message = refusal->field + ": " + refusal->message;
    return answer;
  }
  const auto reply = provisioning_.validate(cls);
  if (!reply) {
    answer.later = true;
    remember = false;
  } else if (reply->outcome == plugin::ReplyCode::invalid) {
    answer.reason = std::string(reason::kInvalidParameter);
    answer.message = "provisioner " + cls.provisioner + ": " + reply->message + "; known to the scheduler are " +
                     Provisioning::coreParameters();
  } else if (!reply->ok()) {
    answer.reason = std::string(reason::kProvisionerUnavailable);
    answer.message = "provisioner " + cls.provisioner + ": " + std::string(plugin::toString(reply->outcome)) +
                     (reply->message.empty() ? "" : ": " + reply->message);
    answer.passing = true;
  } else if (!state.message.empty()) {
    answer.message = "provisioner " + cls.provisioner + ": " + state.message;
  }
  return answer;
}

void ClassSync::forget(const std::string& uid) {
  const base::MutexLock lock(mutex_);
  verdicts_.erase(uid);
  notified_.erase(uid);
}

/// True if, since the last call, a claim of the class was refused because the plugin gave no verdict.
bool ClassSync::claimsWait(const cache::Class& cls) {
  const base::MutexLock lock(mutex_);
  return notified_.erase(cls.metadata.uid) > 0;
}

void ClassSync::pluginChanged(const std::string& provisioner) {
  const base::MutexLock lock(mutex_);
  std::erase_if(verdicts_, [&](const auto& entry) { return entry.second.provisioner == provisioner; });
}

Outcome ClassSync::step(const std::string& name, std::stop_token stop) {
  auto cls = stores_.classes.get({"", name});
  forgetOthers(name, cls ? cls->metadata.uid : std::string());
  if (!cls) return Outcome::done();
  bool failedNow = false;
  auto answer = readVerdict(*cls, true, failedNow);
  if (answer.later) return Outcome::after(timeouts_.busyPluginListInterval);
  if (!answer.passing && claimsWait(*cls)) answered_(*cls);
  // Claims still call the plugin: this shows when it has recovered.
  if (const auto trouble = provisioning_.lastFault(cls->provisioner); answer.ready() && !trouble.empty()) {
    answer.reason = std::string(reason::kProvisionerUnavailable);
    answer.message = "provisioner " + cls->provisioner + ": " + trouble;
  }
  auto conditions = cls->conditions;
  core::Condition ready;
  ready.type = std::string(kReady);
  ready.status = answer.ready() ? "True" : "False";
  ready.reason = answer.ready() ? "Ready" : answer.reason;
  ready.message = answer.message;
  ready.observedGeneration = cls->metadata.generation;
  // The registry reports when a missing plugin appears, but not when a loaded one can answer again. Its message may
  // differ each time, and is written: this write must not trigger the next call at once.
  auto again = answer.passing ? Outcome::after(untilAsked(cls->metadata.uid)) : Outcome::done();
  const auto now = base::rfc3339(clock_.wall());
  const bool changed = setCondition(conditions, ready, now);
  const bool counted = setModelsExist(conditions, stores_.models, scheduler::modelsOf(*cls), "parameters[model]",
                                      cls->metadata.generation, now);
  if (!changed && !counted) return again;
  const auto body = codec::patch::classStatus(cls->metadata.uid, cls->metadata.resourceVersion, conditions);
  auto written = writer_.patch(*cls, body, "status", stop);
  if (!written.ok() && written.status().code() != base::Code::notFound) return Outcome::retry(written.status());
  return again;
}

}  // namespace egpu::reconcile
