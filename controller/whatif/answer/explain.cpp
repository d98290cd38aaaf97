#include "controller/whatif/answer/answerer.h"
#include "controller/whatif/answer/quota_check.h"

namespace egpu::whatif {

using base::Code;
using base::Status;

base::Result<Answer> Answerer::explain(const Question& question, const Deadline& deadline) const {
  auto found = question.subject(stores_);
  if (!found) return found.status();
  if (!*found)
    return Status(
        Code::invalid,
        "the question is empty: give claim (and namespace), or class and gpu, gpu-core, gpu-memory or tflops, "
        "or POST a claim");
  ExplainAnswer answer;
  answer.subject = std::move(**found);
  if (answer.subject.request) {
    auto situation = situationFor(question.spaceOf(answer.subject), deadline);
    auto& subject = answer.subject;
    chooseAlternative(question, deadline, situation, subject);
    const auto request =
        withinQuotas(situation.cluster, situation.quotas, quotaClaimOf(subject, question.spaceOf(subject)),
                     question.requestOf(subject), subject.suits, deadline.pause(), subject);
    answer.decision = scheduler::decide(situation.cluster, request, subject.suits);
    answer.explanation = scheduler::explain(situation.cluster, request, subject.suits, question.namesShown(),
                                            deadline.pause(), subject.whyUnsuited);
    if (!subject.quota.empty()) answer.explanation.remedies.clear();  // more cards would not help
  }
  return Answer(std::move(answer));
}

/// Returns the cluster, with the amounts that quotas count if the namespace has quotas.
scheduler::Situation Answerer::situationFor(const std::string& space, const Deadline& deadline) const {
  if (!stores_.quotasIn(space).empty()) return takeSnapshot(stores_, cluster_, deadline.pause()).situation;
  scheduler::Situation situation;
  situation.cluster = cluster_.queries().copy();
  return situation;
}

/// Chooses the first alternative of the claim that fits; the answer is about that one.
void Answerer::chooseAlternative(const Question& question, const Deadline& deadline, scheduler::Situation& situation,
                                 Subject& subject) {
  const auto claim = quotaClaimOf(subject, question.spaceOf(subject));
  subject.chooseFirst([&](scheduler::Request request) {
    if (!question.node.empty()) request.pinnedNode = question.node;
    return scheduler::decideWithin(situation.cluster, situation.quotas, claim, request, subject.suits, deadline.pause())
        .fits;
  });
}

}  // namespace egpu::whatif
