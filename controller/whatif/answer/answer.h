// Answers to questions as values; render.h makes texts of them. Core in milli-cards, memory in bytes;
// fill in thousandths of the core and memory of the node or card.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "controller/scheduler/forecast.h"
#include "controller/scheduler/moves.h"
#include "controller/scheduler/simulate.h"
#include "controller/scheduler/what_if.h"
#include "controller/whatif/answer/gang_to_let_in.h"
#include "controller/whatif/answer/movable_claims.h"
#include "controller/whatif/answer/pod_simulation.h"
#include "controller/whatif/question/subject.h"

namespace egpu::whatif {

struct ExplainAnswer {
  Subject subject;
  scheduler::Decision decision;  ///< where the claim, or one more like it, would be placed now
  scheduler::Explanation explanation;
};

struct SimulateAnswer {
  /// The claim that the question is about, if any, placed after the steps.
  std::optional<Subject> subject;
  scheduler::Simulation simulation;
  std::vector<std::string> victims;  ///< names of the victims in simulation.preemption, in their order
  bool asksWhatIf = false;
  std::vector<scheduler::Placed> before;  ///< pending claims that fit without any step
  std::vector<scheduler::StepReport> steps;
  std::vector<std::string> stepTexts;  ///< "drain train-0"
  std::optional<PodSimulation> pod;    ///< set if the question is about a Pod instead of a claim
};

struct ForecastAnswer {
  std::string className;
  Subject subject;
  std::string of;  ///< origin of the size: "as requested", "the most frequent of its 12 claims"
  scheduler::Forecast forecast;
  std::string quota{};  ///< why a quota allows no more claims; empty: the quota is not the limit, or was not checked
};

struct DefragAnswer {
  std::optional<Subject> subject;  ///< claim that the moves must let fit; none: the moves free whole cards
  scheduler::MovePlan plan;
  std::vector<MovableClaim> moved;  ///< claims that plan.moves move, in their order
  std::size_t movable = 0;          ///< number of claims that may be moved
  std::optional<bool> holds;        ///< scheduler::firstMoveHolds(), if the question needs it
  std::optional<GangToLetIn> gang;  ///< gang of the subject; the plan lets all its open members fit
  /// Returns the result of the plan as one sentence.
  std::string text() const;
};

using ForecastAnswers = std::vector<ForecastAnswer>;

/// The answer to one document of a question.
using Answer = std::variant<ExplainAnswer, SimulateAnswer, ForecastAnswers, DefragAnswer>;
/// True if the answer reports an error in the question: a forecast for a class that cannot serve the request.
bool hasError(const Answer& answer);

}  // namespace egpu::whatif
