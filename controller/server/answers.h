// Answers to questions as values, as JSON and as tables for a terminal. Core in milli-cards, memory in bytes; fill in
// thousandths of the node's or card's core and memory together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controller/scheduler/forecast.h"
#include "controller/scheduler/moves.h"
#include "controller/scheduler/simulate.h"
#include "controller/scheduler/what_if.h"
#include "controller/server/moves/gang_to_let_in.h"
#include "controller/server/moves/movable_claims.h"
#include "controller/server/pod_simulation.h"
#include "controller/server/text_table.h"
#include "controller/server/what_if_subject.h"

namespace egpu::server {

struct ExplainAnswer {
  WhatIfSubject subject;
  scheduler::Decision decision;  ///< of one (more) like it, now
  scheduler::Explanation explanation;
};

struct SimulateAnswer {
  /// The claim asked about, if any, decided after the steps.
  std::optional<WhatIfSubject> subject;
  scheduler::Simulation simulation;
  std::vector<std::string> victims;  ///< who the victims of simulation.preemption are, in their order
  bool asksWhatIf = false;
  std::vector<scheduler::Placed> before;  ///< claims that waited and fit without any step
  std::vector<scheduler::StepReport> steps;
  std::vector<std::string> stepTexts;  ///< "drain train-0"
  std::optional<PodSimulation> pod;    ///< if a Pod was asked about, instead of the claim
};

struct ForecastAnswer {
  std::string className;
  WhatIfSubject subject;
  std::string of;  ///< where the size is from: "as asked", "the most frequent of its 12 claims"
  scheduler::Forecast forecast;
  std::string quota{};  ///< why a quota lets no more of them; empty: there is no room for more, or none was asked about
};

struct DefragAnswer {
  std::optional<WhatIfSubject> subject;  ///< who is to be let in; nothing: whole cards are to be freed
  scheduler::MovePlan plan;
  std::vector<MovableClaim> moved;  ///< who plan.moves move, in their order
  std::size_t movable = 0;          ///< so many claims may be moved
  std::optional<bool> holds;        ///< scheduler::firstMoveHolds(), if that was asked
  std::optional<GangToLetIn> gang;  ///< gang of the subject; the plan lets all its open members in
  /// In a sentence, what the plan comes to.
  std::string text() const;
};

std::string toJson(const ExplainAnswer& answer);
std::string toJson(const SimulateAnswer& answer);
std::string toJson(const std::vector<ForecastAnswer>& answers);
std::string toJson(const DefragAnswer& answer);

std::string toText(const ExplainAnswer& answer, const TextStyle& style);
std::string toText(const SimulateAnswer& answer, const TextStyle& style);
std::string toText(const std::vector<ForecastAnswer>& answers, const TextStyle& style);
std::string toText(const DefragAnswer& answer, const TextStyle& style);

}  // namespace egpu::server
