#include "controller/whatif/answer/answer.h"

#include <algorithm>

namespace egpu::whatif {

namespace {

std::string counted(std::size_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

/// Returns the result of a plan for a gang as one sentence. The arguments are texts such as "2 moves" and "4 claims
/// that may move".
std::string gangText(const DefragAnswer& answer, const std::string& moves, const std::string& who) {
  const auto& gang = *answer.gang;
  const auto name = gang.gang.text();
  if (!gang.why.empty()) return "no moves are planned for " + name + ": " + gang.why;
  if (!gang.quota.empty()) return name + ": " + gang.quota;
  if (gang.phase == "Bound") return "all members of " + name + " are Bound";
  const auto open = gang.open.size();
  if (open == 0) return "all members of " + name + " have their cards";
  if (!answer.plan.gang) return "no moves are planned for " + name;
  const auto fit = std::to_string(answer.plan.gang->fit) + " of " + std::to_string(open) + " open members " +
                   (answer.plan.gang->fit == 1 ? "fits" : "fit") + " without a move";
  if (answer.plan.possible && answer.plan.moves.empty() && open == 1)
    return "the only open member of " + name + " fits as it is";
  if (answer.plan.possible)
    return answer.plan.moves.empty() ? "all " + std::to_string(open) + " open members of " + name + " fit as they are"
                                     : moves + " would make " + name + " fit: " + fit;
  const auto& lacking = answer.plan.gang->lacking;
  return "no moves would make " + name + " fit" + (answer.plan.exact ? "" : ", as far as was tried") + ": " + fit +
         (lacking ? ", claim " + gang.open[lacking->member] + " does not" : "") + "; " + who;
}

}  // namespace

std::string DefragAnswer::text() const {
  const auto who = counted(movable, "claim") + " that may move";
  const auto moves = counted(plan.moves.size(), "move");
  if (!subject)
    return plan.possible ? moves + " would free " + counted(static_cast<std::size_t>(plan.freedCards), "whole card")
                         : "no move would free a whole card" + std::string(plan.exact ? "" : ", as far as was tried") +
                               "; " + who;
  if (gang) return gangText(*this, moves, who);
  if (!subject->request) return subject->why;
  if (!subject->quota.empty()) return subject->quota;
  if (!plan.possible)
    return "no move would make it fit" + std::string(plan.exact ? "" : ", as far as was tried") + "; " + who;
  return plan.moves.empty() ? "it fits as it is" : moves + " would make it fit";
}

bool hasError(const Answer& answer) {
  const auto* forecasts = std::get_if<ForecastAnswers>(&answer);
  return forecasts != nullptr &&
         std::any_of(forecasts->begin(), forecasts->end(), [](const auto& one) { return !one.subject.request; });
}

}  // namespace egpu::whatif
