// Questions over HTTP: why something does not fit (/explain), where a claim would go and what would happen if
// (/simulate), how many more would fit (/forecast), which claims to move for more room (/defrag). Each is answered on a
// copy of the cluster: nothing is reserved, nothing written.
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
#include "controller/cache/cluster_view.h"
#include "controller/cache/stores.h"
#include "controller/http/http.h"
#include "controller/server/answers.h"

namespace egpu::server {

struct ResizeLimits;
struct Snapshot;
struct StepsToTry;

/// Thread-safe; one question at a time, so that there is never more than one copy. References must outlive it.
/// A question is given up once it is stopped, or kPatience old (its wait for others included): 504 says so.
class WhatIfQuestions {
 public:
  /// cannotResize: why the device's plugin never resizes it, empty if it may; null = all may.
  WhatIfQuestions(const cache::Stores& stores, const cache::ClusterView& cluster, const base::Clock& clock,
                  std::function<std::string(const cache::Gpu& device)> cannotResize = {})
      : stores_(stores), cluster_(cluster), clock_(clock), cannotResize_(std::move(cannotResize)) {}

  /// Header of a 200 in which something is said to be wrong with what was asked.
  static constexpr const char* kErrorHeader = "Elastic-GPU-Error";
  static bool serves(std::string_view path) {
    return path == "/explain" || path == "/simulate" || path == "/forecast" || path == "/defrag" ||
           path == kSimulateSchedule;
  }
  /// Path of tensor-fusion's scheduler for the same question: POST of Pods only, answered as /simulate answers.
  static constexpr std::string_view kSimulateSchedule = "/api/simulate-schedule";
  /// GET with parameters, or POST of claims (/explain, /forecast, /defrag) or of claims, Pods and codec::WhatIfQuestion (/simulate),
  /// YAML or JSON, with or without them; README.md lists them. 400 names the field and what is valid, 404 a claim or
  /// node that isn't there; what is wrong with the body begins with "body: ".
  http::Response answer(const http::Request& request, std::stop_token stop = {});
  static constexpr std::chrono::seconds kPatience{10};

  /// Sets elasticgpu_claims_that_fit per class, for a claim of its usual size. Made anew at most every kFresh, and with
  /// at most a hundredth of the time spent on it; elasticgpu_claims_that_fit_age_seconds says how old it is.
  void publish(base::Metrics& metrics);
  static constexpr std::chrono::seconds kFresh{15};

 private:
  struct Asking;
  struct Patience;
  struct Said {
    std::string body;
    bool error = false;  ///< part of the answer is that something is wrong with the question
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
  /// The gang of a claim that is there, or nothing.
  std::optional<GangToLetIn> gangOf(const std::optional<WhatIfSubject>& subject) const;
  /// For all open members of the gang. evictable: only claims that evictions move, and whether the first move holds.
  void planGang(const Patience& patience, DefragAnswer& answer, const scheduler::Movers& movers, bool evictable) const;
  scheduler::Situation situationFor(const std::string& space, const Patience& patience) const;
  static http::Response together(const Asking& asking, const std::vector<Said>& said);

  const cache::Stores& stores_;
  const cache::ClusterView& cluster_;
  const base::Clock& clock_;
  const std::function<std::string(const cache::Gpu&)> cannotResize_;
  std::mutex one_;  ///< held while a question is answered; guards what follows
  std::optional<base::Clock::Steady> published_;
  base::Clock::Steady publishAgain_;
  std::set<std::string, std::less<>> shownClasses_;
};

}  // namespace egpu::server
