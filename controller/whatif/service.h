// Serves questions over HTTP: why a claim does not fit (/explain), where it would go and what steps would change
// (/simulate), how many more claims would fit (/forecast), which claims to move to gain capacity (/defrag).
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/allocator/allocator.h"
#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/base/mutex.h"
#include "controller/cache/stores.h"
#include "controller/http/http.h"
#include "controller/whatif/answer/answerer.h"

namespace egpu::whatif {

/// Thread-safe. Answers one question at a time, so that at most one copy exists. References must outlive it. A question
/// that is stopped is aborted with 503. One that is older than kPatience, including its wait for other questions, is
/// aborted with 504.
class QuestionService {
 public:
  /// cannotResize: as for the Answerer.
  QuestionService(const cache::Stores& stores, const allocator::Allocator& cluster, const base::Clock& clock,
                  std::function<std::string(const cache::Gpu& device)> cannotResize = {})
      : stores_(stores), cluster_(cluster), clock_(clock), answerer_(stores, cluster, clock, std::move(cannotResize)) {}

  /// Header of a 200 whose answer reports an error in the question.
  static constexpr const char* kErrorHeader = "Elastic-GPU-Error";
  static bool serves(std::string_view path) {
    return path == "/explain" || path == "/simulate" || path == "/forecast" || path == "/defrag" ||
           path == kSimulateSchedule;
  }
  /// Path of tensor-fusion's scheduler for the same question: POST of Pods only, answered like /simulate.
  static constexpr std::string_view kSimulateSchedule = "/api/simulate-schedule";
  /// Accepts GET with parameters, or POST of claims (/explain, /forecast, /defrag) or of claims, Pods and documents
  /// with steps (/simulate), in YAML or JSON, with or without parameters; README.md lists them. 400 names the field and
  /// the valid values; 404 names the missing claim or node. Errors in the body begin with "body: ".
  http::Response answer(const http::Request& request, std::stop_token stop = {});
  static constexpr std::chrono::seconds kPatience{10};

  /// Sets elasticgpu_claims_that_fit per class, for a claim of the class's usual size. Recomputes it at most every
  /// kFresh, and uses at most 1 % of the time for it; elasticgpu_claims_that_fit_age_seconds reports its age.
  void publish(base::Metrics& metrics);
  static constexpr std::chrono::seconds kFresh{15};

 private:
  http::Response answerEach(std::string_view path, Question& question, const Deadline& deadline) const;

  const cache::Stores& stores_;
  const allocator::Allocator& cluster_;
  const base::Clock& clock_;
  const Answerer answerer_;
  base::Mutex answering_;  ///< held while a question is answered
  std::optional<base::Clock::Steady> published_ EGPU_GUARDED_BY(answering_);
  base::Clock::Steady publishAgain_ EGPU_GUARDED_BY(answering_);
  std::set<std::string, std::less<>> shownClasses_ EGPU_GUARDED_BY(answering_);
};

}  // namespace egpu::whatif
