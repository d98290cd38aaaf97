#include <algorithm>

#include "controller/reconcile/claim/resolve.h"
#include "controller/reconcile/priority/priority.h"
#include "controller/scheduler/state/holdings.h"
#include "controller/whatif/answer/answerer.h"
#include "controller/whatif/answer/quota_check.h"

namespace egpu::whatif {

namespace {

using base::Code;
using base::Status;

/// Releases the trial placement of a pending claim that fit in one of the steps, so that it is answered as pending.
void releaseTrial(scheduler::Situation& situation, const Subject& subject) {
  const auto own = std::find_if(situation.claims.begin(), situation.claims.end(),
                                [&](const auto& claim) { return claim.name == subject.claim; });
  if (own == situation.claims.end() || !subject.device.empty() || own->device.empty()) return;
  const auto held = scheduler::holdingsOf(situation.cluster);
  if (const auto it = held.find(own->device); it != held.end())
    scheduler::release(situation.cluster, own->device, it->second);
}

}  // namespace

base::Result<Answer> Answerer::simulate(const Question& question, const Deadline& deadline) const {
  auto about = question.document.pod ? base::Result<std::optional<Subject>>(std::optional<Subject>())
                                     : question.subject(stores_);
  if (!about) return about.status();
  if (!*about && !question.document.pod && question.document.steps.empty())
    return Status(
        Code::invalid,
        "the question is empty: give class and gpu, gpu-core, gpu-memory or tflops, or claim, or steps (drain, add, "
        "release, resize), or POST a claim or a Pod");
  auto trying = stepsToTry(stores_, question.document.steps, question.space, resizeLimits());
  if (!trying) return question.ofStep(trying.status());
  SimulateAnswer answer;
  answer.subject = std::move(*about);
  if (answer.subject && answer.subject->exists) updateSubject(*answer.subject, *trying);
  auto snapshot = takeSnapshot(stores_, cluster_, deadline.pause());
  if (!trying->steps.empty()) {
    answer.asksWhatIf = true;
    auto result = scheduler::whatIf(std::move(snapshot.situation), trying->steps, deadline.pause());
    if (!result) return question.ofStep(result.status());
    snapshot.situation = std::move(result->after);
    answer.before = std::move(result->before);
    answer.steps = std::move(result->steps);
    answer.stepTexts = std::move(trying->texts);
  }
  if (answer.subject && answer.subject->request) place(question, deadline, snapshot, answer);
  if (question.document.pod) {
    auto pod = question.pod(stores_);
    if (!pod) return pod.status();
    for (const auto& claim : pod->claims) releaseTrial(snapshot.situation, claim);
    answer.pod = simulatePod(stores_, snapshot.situation.cluster, *pod, snapshot.situation.quotas, question.node,
                             {question.namesShown(), question.top, deadline.pause()});
  }
  return Answer(std::move(answer));
}

/// Simulates the claim of the question after the steps.
void Answerer::place(const Question& question, const Deadline& deadline, Snapshot& snapshot, SimulateAnswer& answer) {
  auto& cluster = snapshot.situation.cluster;
  const auto own = std::find_if(snapshot.situation.claims.begin(), snapshot.situation.claims.end(),
                                [&](const auto& claim) { return claim.name == answer.subject->claim; });
  releaseTrial(snapshot.situation, *answer.subject);
  for (const auto& claim : snapshot.situation.claims)
    if (!claim.device.empty()) snapshot.holders.try_emplace(claim.device, claim.name);
  auto& subject = *answer.subject;
  chooseAlternative(question, deadline, snapshot.situation, subject);
  const auto& book = snapshot.situation.quotas;
  const auto quotaClaim = quotaClaimOf(subject, question.spaceOf(subject));
  const auto asked = question.requestOf(subject);
  const auto request = withinQuotas(cluster, book, quotaClaim, asked, subject.suits, deadline.pause(), subject);
  const scheduler::SimulatedQuotas quotas{book, quotaClaim, asked};
  answer.simulation = scheduler::simulate(
      cluster, request, subject.suits, {question.namesShown(), question.top, deadline.pause(), subject.whyUnsuited},
      [&](std::string_view device) { return own == snapshot.situation.claims.end() || device != own->device; },
      book.counts(quotaClaim.namespace_) ? &quotas : nullptr);
  if (!subject.quota.empty()) answer.simulation.filter.remedies.clear();  // more cards would not help
  for (const auto& victim : answer.simulation.preemption.victims)
    answer.victims.push_back(snapshot.holder(victim.device));
}

/// Updates the subject of a resize step to its new requests. It may then have no request, because a bound claim is
/// resized by the class recorded in its device.
void Answerer::updateSubject(Subject& subject, const StepsToTry& trying) const {
  const auto changed = trying.changed.find(claimKeyOf(subject.claim, {}));
  if (changed == trying.changed.end()) return;
  auto record = recordOf(stores_, changed->second, true);
  subject.requests = changed->second.spec.requests;
  subject.request = std::move(record.request);
  subject.why = std::move(record.why);
}

ResizeLimits Answerer::resizeLimits() const {
  return {
      cannotResize_, [this](const auto& claim, const auto& device, const auto& request) {
        const auto order = reconcile::queueOrderOf(claim, reconcile::priorityOf(stores_, claim).value, clock_.wall());
        return cluster_.queries().withheldFromResize(
            {claim.metadata.uid, core::keyOf(claim.metadata).str(), request, {}, device.spec.className, order}, device);
      }};
}

}  // namespace egpu::whatif
