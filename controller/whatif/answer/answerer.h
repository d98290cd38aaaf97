// Answers questions on a copy of the cluster: no reservation, no write.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "controller/allocator/allocator.h"
#include "controller/base/clock.h"
#include "controller/base/status.h"
#include "controller/cache/stores.h"
#include "controller/whatif/answer/answer.h"
#include "controller/whatif/answer/deadline.h"
#include "controller/whatif/answer/snapshot.h"
#include "controller/whatif/question/question.h"

namespace egpu::whatif {

/// Each function answers the selected document of the question. Code::invalid and Code::notFound name the field. Throws
/// Deadline::Passed. Thread-safe; references must outlive it.
class Answerer {
 public:
  /// cannotResize: returns why the device's plugin never resizes the device, empty if it may; null = all may be
  /// resized.
  Answerer(const cache::Stores& stores, const allocator::Allocator& cluster, const base::Clock& clock,
           std::function<std::string(const cache::Gpu& device)> cannotResize)
      : stores_(stores), cluster_(cluster), clock_(clock), cannotResize_(std::move(cannotResize)) {}

  base::Result<Answer> explain(const Question& question, const Deadline& deadline) const;
  base::Result<Answer> simulate(const Question& question, const Deadline& deadline) const;
  base::Result<Answer> forecast(const Question& question, const Deadline& deadline) const;
  base::Result<Answer> defrag(const Question& question, const Deadline& deadline) const;

 private:
  static void place(const Question& question, const Deadline& deadline, Snapshot& snapshot, SimulateAnswer& answer);
  static void chooseAlternative(const Question& question, const Deadline& deadline, scheduler::Situation& situation,
                                Subject& subject);
  ResizeLimits resizeLimits() const;
  void updateSubject(Subject& subject, const StepsToTry& trying) const;
  void forecastEach(const Question& question, const Deadline& deadline, ForecastAnswers& answers) const;
  void planMoves(const Question& question, const Deadline& deadline, DefragAnswer& answer,
                 const scheduler::Movers& movers) const;
  /// Returns the gang of an existing claim, or none.
  std::optional<GangToLetIn> gangOf(const std::optional<Subject>& subject) const;
  /// Plans moves for all open members of the gang. evictable: consider only claims that evictions can move, and check
  /// that the first move holds.
  void planGang(const Deadline& deadline, DefragAnswer& answer, const scheduler::Movers& movers, bool evictable) const;
  scheduler::Situation situationFor(const std::string& space, const Deadline& deadline) const;

  const cache::Stores& stores_;
  const allocator::Allocator& cluster_;
  const base::Clock& clock_;
  const std::function<std::string(const cache::Gpu&)> cannotResize_;
};

}  // namespace egpu::whatif
