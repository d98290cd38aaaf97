#include <algorithm>
#include <memory>
#include <set>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/whatif/answer/answerer.h"
#include "controller/whatif/answer/quota_check.h"

namespace egpu::whatif {

namespace {

using base::Code;
using base::Status;

constexpr std::size_t kUsualMoves = 100;
constexpr std::size_t kMaxFirstMoves = 16;  // maximum number of a gang's moves that are tried as the first

/// Rejects a claim that more capacity alone would not bind: no pod is evicted for it.
void onlyForCapacity(Subject& subject) {
  const auto& waits = subject.notReady.empty() ? subject.why : subject.notReady;
  if (!subject.request || waits.empty()) return;
  subject.request.reset();
  subject.why = "more capacity alone would not bind it: " + waits;
}

void onlyForCapacity(GangToLetIn& gang) {
  if (gang.why.empty() && !gang.waits.empty()) gang.why = "more capacity alone would not bind it: " + gang.waits;
}

/// Excludes these nodes for all members.
void closeNodes(GangToLetIn& gang, std::set<std::string, std::less<>> nodes) {
  if (nodes.empty()) return;
  const auto closed = std::make_shared<const std::set<std::string, std::less<>>>(std::move(nodes));
  for (auto& member : gang.members)
    member.suits = [closed, suits = std::move(member.suits)](std::string_view node) {
      return !closed->contains(node) && (!suits || suits(node));
    };
}

}  // namespace

base::Result<Answer> Answerer::defrag(const Question& question, const Deadline& deadline) const {
  auto about = question.subject(stores_);
  if (!about) return about.status();
  if (*about && question.moves)
    return Status(Code::invalid,
                  "moves: applies to freeing whole cards only; for a claim the plan is as small as possible");
  if (!*about && !question.node.empty())
    return Status(Code::invalid,
                  "node: applies only to moves for a claim; give class and gpu, gpu-core, gpu-memory "
                  "or tflops, or claim");
  DefragAnswer answer;
  answer.subject = std::move(*about);
  if (auto gang = gangOf(answer.subject)) {
    if (!question.node.empty())
      return Status(Code::invalid, "node: members of a gang are placed on several nodes; leave it out");
    answer.gang = std::move(gang);
    answer.subject->note.clear();  // the note says that the answer is for the claim alone
  }
  auto claims = movableClaims(stores_, question.evictable, deadline.pause());
  if (stores_.quotas.size() > 0) {
    auto now = takeSnapshot(stores_, cluster_, deadline.pause()).situation;
    holdToQuotas(claims, now);
  }
  const auto reserved =
      cluster_.queries().nodesReservedForOthers(answer.subject && !answer.gang ? answer.subject->claim : std::string());
  closeNodes(claims, reserved);
  if (answer.gang) closeNodes(*answer.gang, cluster_.queries().nodesWithheldFrom(answer.gang->asks));
  if (answer.subject && !answer.gang && !reserved.empty())
    answer.subject->suits = [suits = std::move(answer.subject->suits), reserved](std::string_view node) {
      return !reserved.contains(node) && (!suits || suits(node));
    };
  answer.movable = claims.known.size();
  if (question.evictable && answer.gang) onlyForCapacity(*answer.gang);
  if (question.evictable && answer.subject && !answer.gang) onlyForCapacity(*answer.subject);
  if (answer.gang)
    planGang(deadline, answer, claims.movers, question.evictable);
  else
    planMoves(question, deadline, answer, claims.movers);
  for (const auto& move : answer.plan.moves) answer.moved.push_back(claims.known.find(move.device)->second);
  return Answer(std::move(answer));
}

void Answerer::planMoves(const Question& question, const Deadline& deadline, DefragAnswer& answer,
                         const scheduler::Movers& movers) const {
  constexpr auto kLimit = scheduler::kMaxMoveDecisions;
  const auto pause = deadline.pause();
  scheduler::Situation situation;
  scheduler::MovePlanner planner;
  auto max = static_cast<int64_t>(question.moves.value_or(kUsualMoves));
  if (!answer.subject) {
    situation.cluster = cluster_.queries().copy();
    planner = [&](const auto& at) { return scheduler::movesToFreeCards(at, movers, max, kLimit, pause); };
  } else {
    auto& subject = *answer.subject;
    if (!subject.request) return;
    const auto space = question.spaceOf(subject);
    situation = situationFor(space, deadline);
    chooseAlternative(question, deadline, situation, subject);
    const auto request = withinQuotas(situation.cluster, situation.quotas, quotaClaimOf(subject, space),
                                      question.requestOf(subject), subject.suits, pause, subject);
    if (!subject.quota.empty()) return;  // capacity is not the obstacle
    planner = [&, request](const auto& at) {
      return scheduler::movesToLetIn(at, request, subject.suits, movers, kLimit, pause);
    };
  }
  answer.plan = planner(situation.cluster);
  // limit for the rest after the first move
  max = std::max<int64_t>(0, static_cast<int64_t>(answer.plan.moves.size()) - 1);
  if (question.evictable) answer.holds = scheduler::firstMoveHolds(situation.cluster, answer.plan, movers, planner);
}

std::optional<GangToLetIn> Answerer::gangOf(const std::optional<Subject>& subject) const {
  const auto claim = subject && subject->exists ? stores_.claims.get(core::ObjectKey::of(subject->claim)) : nullptr;
  if (!claim || !reconcile::inGang(stores_, *claim)) return std::nullopt;
  auto gang = gangToLetIn(stores_, cluster_, *claim, clock_.wall());
  const bool open = std::find(gang.open.begin(), gang.open.end(), subject->claim) != gang.open.end();
  // A bound claim ignores its gang annotations, unless other members are open.
  if (!open && subject->phase == v1alpha::keys::phase::kBound && gang.open.empty() && !gang.why.empty())
    return std::nullopt;
  return gang;
}

void Answerer::planGang(const Deadline& deadline, DefragAnswer& answer, const scheduler::Movers& movers,
                        bool evictable) const {
  auto& gang = *answer.gang;
  auto& plan = answer.plan;
  if (!gang.why.empty()) return;
  if (gang.open.empty()) {
    plan.possible = true;
    return;
  }
  const auto space = core::ObjectKey::of(answer.subject->claim).namespace_;
  const auto situation = situationFor(space, deadline);
  if (!situation.quotas.counts(space))
    for (auto& member : gang.members) member.claim.reset();
  const auto pause = deadline.pause();
  const scheduler::MovePlanner planner = [&](const auto& at) {
    return scheduler::movesToLetAllIn(at, gang.members, gang.within(), situation.quotas, movers,
                                      scheduler::kMaxMoveDecisions, pause);
  };
  plan = planner(situation.cluster);
  const auto& lacking = plan.gang->lacking;
  if (!plan.possible && lacking && lacking->excess) gang.quota = quotaText(situation.quotas, *lacking->excess);
  const auto own = std::find(gang.open.begin(), gang.open.end(), answer.subject->claim);
  if (plan.possible && own != gang.open.end())
    plan.decision = plan.gang->decisions[static_cast<std::size_t>(own - gang.open.begin())];
  if (evictable)
    answer.holds = scheduler::beginWithMoveThatHolds(situation.cluster, plan, movers, planner, kMaxFirstMoves);
}

}  // namespace egpu::whatif
