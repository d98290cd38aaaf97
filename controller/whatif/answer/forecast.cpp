#include "controller/scheduler/quota/on_a_copy.h"
#include "controller/whatif/answer/answerer.h"
#include "controller/whatif/answer/quota_check.h"
#include "controller/whatif/answer/typical_request.h"

namespace egpu::whatif {

namespace {

constexpr int64_t kForecastDecisions = 50'000;  // per class

}  // namespace

base::Result<Answer> Answerer::forecast(const Question& question, const Deadline& deadline) const {
  v1alpha::ElasticGPUClaim asked = claimOfFields(question.fields).value_or(v1alpha::ElasticGPUClaim{});
  const bool sized = !asked.spec.requests.empty() || !question.claim.empty() || question.document.claim;
  ForecastAnswers answers;
  const auto add = [&](Subject subject, std::string of) {
    if (subject.request && !subject.notReady.empty()) {  // there may be capacity, but the class can't serve it
      subject.request.reset();
      subject.why = subject.notReady;
    }
    answers.push_back({subject.className, std::move(subject), std::move(of), {}, {}});
  };
  if (sized && (!asked.spec.className.empty() || asked.spec.requests.empty())) {
    auto subject = question.subject(stores_);
    if (!subject) return subject.status();
    auto of = (*subject)->exists ? "as claim " + (*subject)->claim : std::string("as requested");
    add(std::move(**subject), std::move(of));
  } else {
    const auto sizes = usualSizes(stores_);
    const auto& only = asked.spec.className;
    for (const auto& [cls, usual] : sizes) {
      if (!only.empty() && cls != only) continue;
      v1alpha::ElasticGPUClaim claim;
      claim.spec.className = cls;
      claim.spec.requests = sized ? asked.spec.requests : usual.requests;
      auto subject = wouldBeSubject(stores_, claim, {});
      // With all classes, some may not accept this size.
      Subject refused;
      refused.className = cls;
      refused.requests = claim.spec.requests;
      if (!subject) refused.why = subject.status().message();
      add(subject ? std::move(*subject) : std::move(refused), sized ? "as requested" : usual.of);
    }
    if (answers.empty() && !only.empty()) {
      v1alpha::ElasticGPUClaim claim;
      claim.spec.className = only;
      claim.spec.requests = UsualSize::wholeCard();
      return wouldBeSubject(stores_, claim, {}).status();
    }
  }
  forecastEach(question, deadline, answers);
  return Answer(std::move(answers));
}

void Answerer::forecastEach(const Question& question, const Deadline& deadline, ForecastAnswers& answers) const {
  const auto cluster = cluster_.queries().copy();
  for (auto& answer : answers) {
    auto& subject = answer.subject;
    if (!subject.request) continue;
    // later alternatives could fit more claims than the first one
    subject.chooseFirst([&](const auto&) { return false; });
    const auto request = question.requestOf(subject);
    const auto space = question.spaceOf(subject);
    if (!question.ofSpace(subject) || stores_.quotasIn(space).empty()) {
      answer.forecast = scheduler::forecast(cluster, request, subject.suits, kForecastDecisions, deadline.pause());
      continue;
    }
    auto situation = situationFor(space, deadline);
    const auto like = scheduler::quotaClaim(space + "/forecast", subject.className);
    std::optional<scheduler::QuotaExcess> excess;
    answer.forecast = scheduler::forecastWithin(std::move(situation.cluster), situation.quotas, like, request, excess,
                                                subject.suits, kForecastDecisions, deadline.pause());
    if (excess) answer.quota = excess->text();
  }
}

}  // namespace egpu::whatif
