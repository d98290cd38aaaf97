// The operations endpoint: the page, /events, /metrics, /allocation-map, /explain, /simulate, /forecast, /defrag,
// /bill, and the probes again.
// README.md describes how to add a path or question.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "controller/base/mutex.h"
#include "controller/http/http.h"
#include "controller/server/allocation_map.h"
#include "controller/server/operations/callers.h"
#include "controller/server/operations/probes.h"
#include "controller/server/page/page.h"

namespace egpu::server {

/// Sources of the endpoint's answers: functions, so that the server owns no state. All must be thread-safe.
struct OperationsSources {
  std::function<AllocationMap(const allocator::MapPage&)> map;
  std::function<std::string()> metrics;  ///< Prometheus text
  std::function<std::string()> alive;    ///< empty = alive, otherwise the fault
  std::function<std::string()> ready;    ///< empty = ready, otherwise the missing condition
  std::function<std::string()> role{};   ///< "leader" | "standby", shown by /readyz; empty = no leader election
  /// Answers the paths of whatif::QuestionService::serves(), and aborts when stopped. Called only when ready() reports
  /// no fault. Empty = questions are not served.
  std::function<http::Response(const http::Request&, std::stop_token)> questions{};
  /// Authorizes the caller with this Authorization header for everything but probes and metrics. Empty: every caller on
  /// this machine is allowed.
  std::function<Callers::CallerVerdict(std::string_view, std::stop_token)> callers{};
  /// Returns the pods of the claims in a map; empty = not known.
  std::function<ClaimPods(const AllocationMap&)> pods{};
  /// Answers the requests of Moves::serves() with the caller's rights; called under the same conditions as `questions`.
  /// Empty = moves are not served.
  std::function<http::Response(const http::Request&, std::stop_token)> moves{};
  /// Opens a stream of changes (/events) that ends when the function returns false: the caller is no longer allowed.
  /// Called only when ready() reports no fault. Empty = not served.
  std::function<http::Response(std::function<bool(std::stop_token)>)> events{};
  /// Answers /bill. whole: the caller may see all namespaces; otherwise only the one that the request names. Empty =
  /// not served.
  std::function<http::Response(const http::Request&, bool whole, std::stop_token)> bill{};
  /// Authorizes a caller for the bill of a namespace, if `callers` has not.
  std::function<Callers::CallerVerdict(std::string_view authorization, std::string_view space, std::stop_token)>
      tenants{};
};

/// Serves GET only, except for questions and moves. /allocation-map?format=json|yaml|backendai|text (&node= &idle=nodes
/// &limit= &continue= &color=1 &columns= &width=). Unknown formats and paths are refused with a list of the valid ones.
/// Computes at most four answers at once: one question, one /metrics, kMaps maps; other requests wait. All requests
/// that wait for /metrics share the next text. Thread-safe.
class Operations final : public http::Handler {
 public:
  explicit Operations(OperationsSources sources);
  http::Response handle(const http::Request& request, std::stop_token stop) override;
  /// True for /metrics and the page's files, because every client may request them as often as it likes.
  bool givesWay(const http::Request& request) const override { return isScrape(request) || isPagePath(request.path); }
  /// Aborts running questions and answers new ones with 503, because the process is about to end. Idempotent.
  void stopQuestions() { stopping_.request_stop(); }

  /// Limits of a listener for this handler.
  static http::Limits limits();
  static constexpr int kMaps = 2;
  static constexpr std::size_t kMaxAnswer = std::size_t{64} << 20;  ///< bytes; a larger answer is refused

 private:
  Callers::CallerVerdict tenant(const http::Request& request, Callers::CallerVerdict refused,
                                std::stop_token stop) const;
  http::Response guarded(const http::Request& request, bool whole, std::stop_token stop);
  static bool isScrape(const http::Request& request);
  http::Response scrape(const std::stop_token& stop);
  http::Response allocationMap(const http::Request& request, std::stop_token stop);
  http::Response events(const http::Request& request) const;
  const OperationsSources sources_;
  Probes probes_;
  std::stop_source stopping_;
  base::Mutex mutex_;
  std::condition_variable_any mapDone_, scrapeDone_;
  int maps_ EGPU_GUARDED_BY(mutex_) = 0;  ///< maps in progress
  bool scraping_ EGPU_GUARDED_BY(mutex_) = false;
  uint64_t begun_ EGPU_GUARDED_BY(mutex_) = 0;                          ///< number of scrapes begun
  std::shared_ptr<const std::string> scraped_ EGPU_GUARDED_BY(mutex_);  ///< text of the last successful scrape
  uint64_t scrapedBy_ EGPU_GUARDED_BY(mutex_) = 0;                      ///< number of that scrape
};

}  // namespace egpu::server
