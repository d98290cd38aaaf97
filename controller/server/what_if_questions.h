// Answers questions over HTTP: why a claim does not fit (/explain), where it would go and what steps would change
// (/simulate), how many more claims would fit (/forecast), which claims to move to gain capacity (/defrag). Each answer
// is computed on a copy of the cluster: no reservation, no write.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/allocator/allocator.h"
#include "controller/cache/stores.h"
#include "controller/http/http.h"
#include "controller/server/answers.h"

namespace egpu::server {

struct ResizeLimits;
struct Snapshot;
struct StepsToTry;

/// Thread-safe. Answers one question at a time, so that at most one copy exists. References must outlive it. A question
/// that is stopped is aborted with 503. One that is older than kPatience, including its wait for other questions, is
/// aborted with 504.
class WhatIfQuestions {
 public:
  /// cannotResize: returns why the device's plugin never resizes the device, empty if it may; null = all may be
  /// resized.
  WhatIfQuestions(const cache::Stores& stores, const cache::ClusterView& cluster, const base::Clock& clock,
                  std::function<std::string(const cache::Gpu& device)> cannotResize = {})
      : stores_(stores), cluster_(cluster), clock_(clock), cannotResize_(std::move(cannotResize)) {}

  /// Header of a 200 whose answer reports an error in the question.
  static constexpr const char* kErrorHeader = "Elastic-GPU-Error";
  static bool serves(std::string_view path) {
    return path == "/explain" || path == "/simulate" || path == "/forecast" || path == "/defrag" ||
           path == kSimulateSchedule;
  }
  /// Path of tensor-fusion's scheduler for the same question: POST of Pods only, answered like /simulate.
  static constexpr std::string_view kSimulateSchedule = "/api/simulate-schedule";
  /// Accepts GET with parameters, or POST of claims (/explain, /forecast, /defrag) or of claims, Pods and
  /// codec::WhatIfQuestion (/simulate), in YAML or JSON, with or without parameters; README.md lists them. 400 names
  /// the field and the valid values; 404 names the missing claim or node. Errors in the body begin with "body: ".
  http::Response answer(const http::Request& request, std::stop_token stop = {});
  static constexpr std::chrono::seconds kPatience{10};

  /// Sets elasticgpu_claims_that_fit per class, for a claim of the class's usual size. Recomputes it at most every
  /// kFresh, and uses at most 1 % of the time for it; elasticgpu_claims_that_fit_age_seconds reports its age.
  void publish(base::Metrics& metrics);
  static constexpr std::chrono::seconds kFresh{15};

 private:
  struct Asking;
  struct Patience;
  struct Said {
    std::string body;
    bool error = false;  ///< the answer contains an error in the question
  };
  http::Response answerAlone(const http::Request& request, Asking& asking, const Patience& patience) const;
  base::Result<Said> explain(const Asking& asking, const Patience& patience) const;
  base::Result<Said> simulate(const Asking& asking, const Patience& patience) const;
  static void place(const Asking& asking, const Patience& patience, Snapshot& snapshot, SimulateAnswer& answer);
  static void chooseAlternative(const Asking& asking, const Patience& patience, scheduler::Situation& situation,
                                WhatIfSubject& subject);
  ResizeLimits resizeLimits() const;
  void asChanged(WhatIfSubject& subject, const StepsToTry& trying) const;
  base::Result<Said> forecast(const Asking& asking, const Patience& patience) const;
  void forecastEach(const Asking& asking, const Patience& patience, std::vector<ForecastAnswer>& answers) const;
  base::Result<Said> defrag(const Asking& asking, const Patience& patience) const;
  void planMoves(const Asking& asking, const Patience& patience, DefragAnswer& answer,
                 const scheduler::Movers& movers) const;
  /// Returns the gang of an existing claim, or none.
  std::optional<GangToLetIn> gangOf(const std::optional<WhatIfSubject>& subject) const;
  /// Plans moves for all open members of the gang. evictable: consider only claims that evictions can move, and check
  /// that the first move holds.
  void planGang(const Patience& patience, DefragAnswer& answer, const scheduler::Movers& movers, bool evictable) const;
  scheduler::Situation situationFor(const std::string& space, const Patience& patience) const;
  static http::Response together(const Asking& asking, const std::vector<Said>& said);

  const cache::Stores& stores_;
  const cache::ClusterView& cluster_;
  const base::Clock& clock_;
  const std::function<std::string(const cache::Gpu&)> cannotResize_;
  std::mutex one_;  ///< held while a question is answered; guards the members below
  std::optional<base::Clock::Steady> published_;
  base::Clock::Steady publishAgain_;
  std::set<std::string, std::less<>> shownClasses_;
};

}  // namespace egpu::server
